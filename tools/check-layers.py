#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Checks what the tree promises about its shape: includes go down the layers only, files and
functions stay small, every file names its licence, nothing orders memory with volatile, one file
reads the clock, the pool asks the system for nothing that its backing has, and no path of somebody's machine is written down. Prints each offence as file:line:
what; exits 1 if any."""
import argparse
import os
import re
import sys
from pathlib import Path

FILE_LINES = 800
FUNCTION_LINES = 80

# Folder of src/ -> the folders that it may include besides itself.
BELOW = {
    'backing': set(),
    'pool': {'backing'},
    'mailbox': {'pool'},
    'migrate': {'pool', 'backing'},
    'nic': {'pool'},
    'wire': set(),
    'link': {'pool'},
    'cuda': set(),
    'transport': {'nic', 'pool', 'link'},
    'process': {'transport', 'nic', 'migrate', 'pool', 'backing'},
}
API = {'verbs', 'cm', 'cli', 'shim', 'stream', 'ape', 'gpu', 'card'}
BELOW.update({api: {'process', 'transport', 'nic', 'mailbox', 'migrate', 'pool', 'wire', 'link'} for api in API})
BELOW['cli'] |= {'stream', 'card'}  # its commands are programs that use them
# Headers that another folder may include although it stands beside or below: (includer's folder, header).
LENT = {('shim', 'verbs/attr.h'), ('cm', 'verbs/service.h'),
        ('cuda', 'process/plugin.h'), ('cuda', 'pool/step.h'), ('stream', 'cuda/device.h'), ('stream', 'cuda/judge.h'), ('wire', 'pool/address.h'), ('wire', 'nic/types.h'), ('wire', 'nic/cause.h'), ('wire', 'nic/ipv4.h'), ('nic', 'backing/fence.h'), ('wire', 'nic/errors.h'),
        ('nic', 'backing/atomic.h'), ('transport', 'backing/atomic.h'), ('wire', 'backing/atomic.h'), ('link', 'backing/atomic.h'),
        ('backing', 'pool/clock.h'), ('backing', 'pool/format.h'), ('backing', 'pool/format_home.h'), ('backing', 'pool/format_host.h'), ('backing', 'pool/sizes.h'),
        ('backing', 'pool/step.h')}

# Built without a C library (check-freestanding.py).
FREESTANDING = {'nic', 'transport', 'wire'}

# The one file that reads a clock, and what that looks like.
CLOCK = Path('src/pool/clock.c')
CLOCKS = r'\b(clock_gettime|clock|gettimeofday|time|timerfd_create)\s*\('

# What the pool's backing is for (struct weft_backing): mapping, reserving, locks, proof of life, sleep and the
# fence. A file of the pool that names one of these calls, or a number of a system call, stands here with its reason.
SYSTEM = re.compile(r'(?<![\w>.])(open|openat|close|dup\d?|fcntl|flock|lockf|read|write|pread\w*|pwrite\w*|lseek|f?stat|lstat|'
                    r'fstatat|f?statfs|f?truncate|fallocate|posix_fallocate|unlink|rename|ioctl|mmap|munmap|mremap|'
                    r'mprotect|madvise|mlock\w*|msync|memfd_create|shm_open|syscall|futex|membarrier|kill|usleep|'
                    r'nanosleep|clock_nanosleep|sched_yield|poll|epoll_\w+)\s*\(|\bSYS_\w+|\bMEMBARRIER_\w+')
ASKS = {
    'member.c': {'stat'},  # in which namespaces this process is
    'room.c': {'mmap', 'munmap'},  # tables of this process alone
    # the pipes of completion channels, which programs wait for, and which are no part of the pool
    'wake.c': {'fstat', 'fcntl', 'close', 'syscall', 'SYS_write', 'SYS_pidfd_open', 'SYS_pidfd_getfd'},
}

CODE = {'.c', '.h'}
LICENSED = CODE | {'.py', '.sh', '.build', '.map', '.ini'}
LICENSED_NAMES = {'Makefile', '.clang-tidy'}
LICENCE = 'SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause'
SOMEBODYS = re.compile(r'(?<![\w.}])/(?:work|root|home)/\w')
TEXT = LICENSED | {'.md', '.json', '.tsv', '.txt', '.supp', ''}


def without_comments(text):
    """The text with comments and string literals blanked, line numbers kept."""
    def blank(match):
        word = match[0]
        return word if word[0] == '#' else re.sub(r'[^\n]', ' ', word)
    pattern = (r'#\s*include[^\n]*|//[^\n]*|/\*.*?\*/'
               r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
    return re.sub(pattern, blank, text, flags=re.S)


def check_includes(path, code):
    folder = path.parts[1]
    for number, line in enumerate(code, 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if not match:
            continue
        target = match[1]
        other = target.split('/')[0] if '/' in target else folder
        if '..' in target:
            yield number, f'includes {target}: include paths start at src/'
        elif other in BELOW and other != folder and other not in BELOW.get(folder, ()):
            if (folder, target) not in LENT:
                yield number, f'{folder} must not include {target}'


def check_functions(code):
    start = None
    for number, line in enumerate(code, 1):
        if line.rstrip() == '{':
            start = number
        elif line.startswith('}') and start:
            if number - start + 1 > FUNCTION_LINES:
                yield start, f'function of {number - start + 1} lines, {FUNCTION_LINES} allowed'
            start = None


def check_volatile(code):
    for number, line in enumerate(code, 1):
        rest = re.sub(r'\b(__)?asm(__)?\s+(__)?volatile(__)?\b', '', line)
        if re.search(r'\bvolatile\b', rest):
            yield number, 'volatile orders nothing: use C11 atomics'


def check_clock(path, code):
    """Only one file reads a clock, so that tests can replace it; the programs of src/cli may read their own."""
    for number, line in enumerate(code, 1):
        if path != CLOCK and path.parts[1] != 'cli' and re.search(CLOCKS, line):
            yield number, f'reads a clock: {CLOCK.name} does'


def check_own_headers(path, code):
    for number, line in enumerate(code, 1):
        if re.match(r'\s*#\s*include\s*<stdatomic\.h>', line) and path.name != 'atomic.h':
            yield number, 'includes <stdatomic.h>: backing/atomic.h does'
        if re.match(r'\s*#\s*define\s+E[A-Z]+\s+\d+$', line.rstrip()) and path.name != 'errors.h':
            yield number, 'defines the number of an error: nic/errors.h does'
        if re.search(r'\breturn -\d\d+;', line):
            yield number, 'returns the number of an error: nic/errors.h has its name'


def check_system(path, code):
    for number, line in enumerate(code, 1):
        for match in SYSTEM.finditer(line):
            call = match[1] or match[0]
            if call not in ASKS.get(path.name, ()):
                yield number, f'asks the system for {call}: struct weft_backing does'


def check_file(root, path):
    """Yields (line, offence) for one file, path relative to root."""
    try:
        text = (root / path).read_text()
    except UnicodeDecodeError:
        return
    lines = text.splitlines()
    script = not path.suffix and lines and lines[0].startswith('#!')
    licensed = path.suffix in LICENSED or path.name in LICENSED_NAMES or script
    if licensed:
        if not any(LICENCE in line for line in lines[:3]):
            yield 1, f'lacks {LICENCE}'
        if len(lines) > FILE_LINES:
            yield 1, f'{len(lines)} lines, {FILE_LINES} allowed'
    for number, line in enumerate(lines, 1):
        if SOMEBODYS.search(line) or str(root) + '/' in line:
            yield number, "a path of somebody's machine"
    if path.suffix in CODE:
        code = without_comments(text).splitlines()
        yield from check_functions(code)
        if path.parts[0] == 'src':
            yield from check_volatile(code)
            yield from check_clock(path, code)
            if path.parts[1] in FREESTANDING or path.match('src/pool/format*.h'):
                yield from check_own_headers(path, code)
            if path.parts[1] == 'pool':
                yield from check_system(path, code)
            if len(path.parts) > 2:
                yield from check_includes(path, code)


def files(root):
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in ('.git', '.cache', '__pycache__', 'LICENSES')
                         and not s.startswith('build')]
        for name in names:
            path = Path(folder, name)
            if path.suffix in TEXT and path.is_file() and not path.is_symlink():
                yield path.relative_to(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    offences = [f'{path}:{line}: {what}' for path in sorted(files(root)) if path.name != '.git'
                for line, what in check_file(root, path)]
    print(*offences, sep='\n', end='\n' if offences else '')
    return 1 if offences else 0


if __name__ == '__main__':
    sys.exit(main())
