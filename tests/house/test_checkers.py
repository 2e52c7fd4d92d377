# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The checkers of the tree: a good tree passes, and each kind of bad file is found."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.aside
TOOLS = Path(__file__).resolve().parents[2] / 'tools'
SPDX = '/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */\n'


def check(tool, tree, path, text):
    target = tree / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return subprocess.run(['/usr/bin/python3', TOOLS / tool, '--root', tree], text=True,
                          capture_output=True, check=False)


def function(lines):
    return 'int weft_f(void)\n{\n' + '\tweft_g();\n' * (lines - 2) + '}\n'


GOOD = [
    ('src/wire/roce/a.c', SPDX + '#include "nic/types.h"\n'),
    ('src/card/a.c', SPDX + '#include "wire/roce/packet.h"\n'),
    ('src/nic/a.c', SPDX + '#include "pool/format.h"\n#include "nic/qp.h"\n#include <stdint.h>\n'),
    ('src/transport/direct/a.c', SPDX + '#include "nic/qp.h"\n#include "link/udp.h"\n'),
    ('src/verbs/a.c', SPDX + '#include "transport/table.h"\n#include "pool/member.h"\n'),
    ('src/shim/a.c', SPDX + '#include "process/gid.h"\n'),
    ('src/pool/a.c', SPDX + '/* not volatile */\n__asm__ volatile("" ::: "memory");\n'),
    ('src/wire/roce/b.c', SPDX + '#include "nic/errors.h"\n\treturn -EINVAL;\n'),
    ('src/pool/wake.c', SPDX + 'close(fd);\n'),
    ('src/migrate/migrated.c', SPDX + 'page = mmap(NULL, 1, 0, 0, fd, 0);\n'),
    ('src/pool/b.c', SPDX + 'weft_open(a);\na->on->open(a);\n/* fstat() */\n'),
    ('src/backing/a.c', SPDX + '#include "pool/format.h"\nfd = open(path, 0);\n'),
    ('src/pool/e.c', SPDX + '#include "backing/backing.h"\n' + function(80)),
    ('src/pool/c.c', SPDX + 'const char *s = "volatile";\n'),
    ('src/pool/clock.c', SPDX + 'clock_gettime(CLOCK_MONOTONIC, &t);\n'),
    ('src/cli/b.c', SPDX + 'x = time(NULL);\n'),
    ('src/pool/d.c', SPDX + 'int x;\n' * 799),
    ('tests/run.sh', '#!/bin/sh\n# ' + SPDX[3:-4] + '\n'),
    ('README.md', 'See /usr/share/doc.\n'),
]
BAD = [
    ('src/wire/roce/a.c', SPDX + '#include "pool/pool.h"\n', 'wire must not include'),
    ('src/wire/roce/a.c', SPDX + '#include "nic/nic.h"\n', 'wire must not include'),
    ('src/pool/a.c', SPDX + '#include "nic/qp.h"\n', 'pool must not include'),
    ('src/nic/a.c', SPDX + '#include "transport/table.h"\n', 'nic must not include'),
    ('src/nic/a.c', SPDX + '#  include "process/gid.h"\n', 'nic must not include'),
    ('src/link/a.c', SPDX + '#include "nic/qp.h"\n', 'link must not include'),
    ('src/link/a.c', SPDX + '#include "wire/roce/packet.h"\n', 'link must not include'),
    ('src/card/a.c', SPDX + '#include "verbs/qp.h"\n', 'card must not include'),
    ('src/transport/handed/a.c', SPDX + '#include "wire/roce/packet.h"\n', 'transport must not include'),
    ('src/transport/direct/a.c', SPDX + '#include "cli/info.h"\n', 'transport must not include'),
    ('src/cli/a.c', SPDX + '#include "verbs/object.h"\n', 'cli must not include'),
    ('src/shim/a.c', SPDX + '#include "verbs/object.h"\n', 'shim must not include'),
    ('src/nic/a.c', SPDX + '#include "../process/gid.h"\n', 'start at src/'),
    ('src/pool/a.c', SPDX + 'volatile int x;\n', 'volatile'),
    ('src/nic/a.c', SPDX + 'x = time(NULL);\n', 'reads a clock'),
    ('src/verbs/a.c', SPDX + 'clock_gettime(CLOCK_MONOTONIC, &t);\n', 'reads a clock'),
    ('src/pool/a.c', SPDX + 'fd = open(path, 0);\n', 'asks the system for open'),
    ('src/pool/open.c', SPDX + 'at = mmap(NULL, 1, 0, 0, fd, 0);\n', 'asks the system for mmap'),
    ('src/pool/wake.c', SPDX + 'fd = open(path, 0);\n', 'asks the system for open'),
    ('src/pool/wake.c', SPDX + 'x = SYS_futex;\n', 'asks the system for SYS_futex'),
    ('src/pool/bell.c', SPDX + 'syscall(1);\n', 'asks the system for syscall'),
    ('src/backing/a.c', SPDX + '#include "pool/pool.h"\n', 'backing must not include'),
    ('src/nic/a.c', SPDX + '#include "backing/backing.h"\n', 'nic must not include'),
    ('src/verbs/a.c', SPDX + '#include "backing/backing.h"\n', 'verbs must not include'),
    ('src/nic/a.c', SPDX + '#include <stdatomic.h>\n', 'backing/atomic.h does'),
    ('src/pool/format.h', SPDX + '#include <stdatomic.h>\n', 'backing/atomic.h does'),
    ('src/wire/roce/a.c', SPDX + '#define EAGAIN 11\n', 'nic/errors.h does'),
    ('src/transport/a.c', SPDX + '\treturn -12;\n', 'nic/errors.h has its name'),
    ('src/pool/a.c', SPDX + function(81), 'function of 81 lines'),
    ('src/pool/a.c', SPDX + 'int x;\n' * 800, '801 lines'),
    ('src/pool/a.c', 'int x;\n', 'lacks SPDX'),
    ('tools/x', '#!/bin/sh\n', 'lacks SPDX'),
    ('tests/test_x.py', 'x = 1\n', 'lacks SPDX'),
    ('README.md', 'See /' + 'home/someone/weft.\n', "somebody's machine"),
    ('src/pool/a.c', SPDX + '/* /' + 'root/weft */\n', "somebody's machine"),
]


@pytest.mark.parametrize('path,text', GOOD)
def test_good_file(tmp_path, path, text):
    done = check('check-layers.py', tmp_path, path, text)
    assert (done.returncode, done.stdout) == (0, '')


@pytest.mark.parametrize('path,text,offence', BAD)
def test_bad_file(tmp_path, path, text, offence):
    done = check('check-layers.py', tmp_path, path, text)
    assert done.returncode == 1
    assert done.stdout.startswith(path + ':') and offence in done.stdout


FREESTANDING_GOOD = '#include <stdint.h>\nvoid weft_g(void);\n'


@pytest.mark.parametrize('text,status', [
    (FREESTANDING_GOOD + 'void weft_g(void)\n{\n}\nvoid weft_f(void);\nvoid weft_f(void)\n{\n\tweft_g();\n}\n', 0),
    (FREESTANDING_GOOD + 'void weft_f(void);\nvoid weft_f(void)\n{\n\tweft_g();\n}\n', 1),
    (FREESTANDING_GOOD + 'void weft_g(void)\n{\n\tstatic int calls;\n\n\tcalls++;\n}\n', 1),
    (FREESTANDING_GOOD + 'static const int one = 1;\nextern const int *const weft_one;\nconst int *const weft_one = &one;\n', 0),
    ('void weft_g(char *);\nvoid weft_f(void);\nvoid weft_g(char *at)\n{\n\t__asm__ volatile("" ::"r"(at) : "memory");\n}\n'
     'void weft_f(void)\n{\n\tchar room[2100];\n\n\tweft_g(room);\n}\n', 1),
    ('void weft_g(char *);\nvoid weft_f(void);\nvoid weft_g(char *at)\n{\n\t__asm__ volatile("" ::"r"(at) : "memory");\n}\n'
     'void weft_f(void)\n{\n\tchar room[1900];\n\n\tweft_g(room);\n}\n', 0),
    ('#include <stdlib.h>\n', 1),
    ('void *malloc(__SIZE_TYPE__);\nvoid *weft_f(void);\nvoid *weft_f(void)\n{\n'
     '\treturn malloc(1);\n}\n', 1),
    ('int weft_f(void)\n{\n}\n', 1),
])
@pytest.mark.parametrize('path', ['src/nic/a.c', 'src/wire/roce/a.c', 'src/transport/direct/a.c'])
def test_freestanding(tmp_path, path, text, status):
    assert check('check-freestanding.py', tmp_path, path, text).returncode == status


def test_freestanding_without_files(tmp_path):
    assert check('check-freestanding.py', tmp_path, 'README.md', '').returncode == 77


@pytest.mark.parametrize('call, options, offence', [
    ('close_range(3, 4, 0)', [], 'close_range needs glibc 2.34'),
    ('dlsym(0, "x")', [], None),  # it has only moved into libc
    ('dlsym(0, "x")', ['--no-newer'], 'needs glibc 2.3'),
    ('puts("x")', ['--no-newer'], None)])
def test_glibc(tmp_path, call, options, offence):
    (tmp_path / 'src/cli').mkdir(parents=True)
    (tmp_path / 'a.c').write_text('#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n'
                                  f'#include <unistd.h>\nint weft_f(void) {{ return !!{call}; }}\n')
    libraries = ['libibverbs.so.1', 'librdmacm.so.1', 'libweft-shim.so', 'weft', 'src/cli/rdma']
    for name in libraries:
        subprocess.run(['gcc', '-shared', '-fPIC', tmp_path / 'a.c', '-o', tmp_path / name], check=True)
    done = subprocess.run([TOOLS / 'check-glibc.py', *options, *([tmp_path] if options else [])],
                          env={**os.environ, 'WEFT_BUILD': str(tmp_path)}, text=True,
                          capture_output=True, check=False)
    assert (done.returncode == 0) == (offence is None), done
    assert not offence or offence in done.stdout


EXPLAINED = [
    '\treturn EINVAL;\n',
    '\terrno = EOPNOTSUPP;\n',
    '\treturn is_good ? 0 : -EINVAL;\n',
    '\t\terr = EEXIST;\n',
]


@pytest.mark.parametrize('line', EXPLAINED)
def test_unexplained_errno(tmp_path, line):
    done = check('check-explained.py', tmp_path, 'src/verbs/a.c', 'int weft_f(void)\n{\n' + line + '}\n')
    assert done.returncode == 1
    assert done.stdout.startswith('src/verbs/a.c:3: fails without a word')


@pytest.mark.parametrize('line', EXPLAINED)
def test_explained_errno(tmp_path, line):
    said = '\tif (weft_explain_stale("ibv_f", f, WEFT_HANDLE_CQ))\n' + line
    assert not check('check-explained.py', tmp_path, 'src/verbs/a.c', said).returncode


@pytest.mark.parametrize('row,offence', [
    ('\tX(SEEN, EINVAL, "", "words")\n\n', 'SEEN has no clause'),
    ('\tX(UNSEEN, EINVAL, "9.9.2", "words")\n\n', 'UNSEEN is used nowhere'),
])
def test_bad_rule(tmp_path, row, offence):
    (tmp_path / 'src/pool').mkdir(parents=True)
    (tmp_path / 'src/pool/a.c').write_text('weft_broken("ibv_f", SEEN);\n')
    done = check('check-explained.py', tmp_path, 'src/verbs/rules.h', row)
    assert done.returncode == 1 and offence in done.stdout


PARTNERS = '''static void put(int n)
{
\tatomic_store_explicit(&seq, n, memory_order_release);
}

int weft_plain(int a,
\t       int b)
{
\treturn a + b;
}
'''


@pytest.mark.parametrize('comment,offence', [
    ('pairs with the release in put', None),
    ('pairs with the release\n\t * in put (a.c), and more', None),
    ('both pair with the releases in put() (nic/a.c)', None),
    ('as in weft_plain (a.c)', None),
    ('look in there', None),
    ('pairs with the acquire in put', 'put has no acquire'),
    ('pairs with the barrier in weft_plain', 'weft_plain has no barrier'),
    ('pairs with the release in gone', 'gone is in no such file'),
    ('pairs with the release in put (b.c)', 'put is in no such file'),
    ('as in\n\t * weft_gone (a.c)', 'weft_gone is in no such file'),
])
def test_partners(tmp_path, comment, offence):
    done = check('check-partners.py', tmp_path, 'src/nic/a.c', f'{PARTNERS}\n/*\n * {comment} */\n')
    assert done.returncode == (1 if offence else 0), done.stdout
    assert done.stdout == (f'src/nic/a.c:12: {offence}\n' if offence else '')


CHANGES = '''#include "backing/atomic.h"

struct weft_pool_thing {
	_Alignas(64) _Atomic uint64_t word; /* [O] */
	_Atomic uint32_t list[4], count;
};

'''


@pytest.mark.parametrize('line,offence', [
    ('weft_store(&t->word, 1);', None),
    ('atomic_store_explicit(&t->list[1], 1, memory_order_release);', None),
    ('n = t->word + t->list[t->count];', None),
    ('t->word == 1 ? t->word : 0;', None),
    ('atomic_exchange(&t->word, 1);', 'no gate: weft_f changes t->word'),
    ('(void)atomic_fetch_add_explicit(\n\t\t&t->count, 1, memory_order_relaxed);', 'no gate: weft_f changes t->count'),
    ('atomic_store(&t->word, 1);', 'no gate: weft_f changes t->word'),
    ('__sync_lock_test_and_set(&t->word, 1);', 'no gate: weft_f changes t->word'),
    ('t->word = 1;', 'plain assignment to word: an exchange'),
    ('t->list[t->count] =\n\t\t1;', 'plain assignment to list: an exchange'),
    ('t->count |= 1;', 'plain assignment to count: an exchange'),
    ('t->count++;', 'plain assignment to count: an exchange'),
    ('n = --t->list[2];', 'plain assignment to list: an exchange'),
])
def test_atomics(tmp_path, line, offence):
    """Each that changes a word, in whichever way, is found where it has no gate; loads and plain stores are not."""
    if not shutil.which('clang'):
        pytest.skip('clang is not installed')
    (tmp_path / 'src/backing').mkdir(parents=True)
    (tmp_path / 'src/pool').mkdir()
    (tmp_path / 'src/backing/atomic.h').write_text((TOOLS.parent / 'src/backing/atomic.h').read_text() + '#include <stdint.h>\n')
    (tmp_path / 'src/pool/format.h').write_text(CHANGES)
    text = f'#include "pool/format.h"\n\nvoid weft_f(struct weft_pool_thing *t, uint64_t n)\n{{\n\t{line}\n}}\n'
    done = check('check-atomics.py', tmp_path, 'src/nic/a.c', text)
    assert done.returncode == (1 if offence else 0), done
    assert done.stdout.count('\n') == (1 if offence else 0) and (offence or '') in done.stdout, done.stdout
