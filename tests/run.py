#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the stages of `make check` in order and ends with `N passed, N failed, N skipped`.

What needs nothing but the processor (lint, clang-tidy, the builds for sanitizers and coverage, tests in virtual time
and of the tree: those marked or of meson's suite `aside`) runs in a second process of this script, in the time that the
others sleep: as SCHED_IDLE, which has the processor while no other process wants it. What sleeps for most of its time
(`waits`) runs in a third, one at a time, plain and sanitized. In the quick run, whole programs (pytest) and lint
run beside test programs in C. Tests of speed, or with limits of time (`alone`), wait until all that has ended. Then a few that failed
beside others are run again by themselves, as most promise something within a time: which were, the end of the output names.

A stage builds what it needs in its own folder and counts the test cases that it ran. A test case is
a case of a C test program (cmocka's TAP lines; a program without them is one case), a pytest case,
a lint script, or a file under clang-tidy. The exit status is 1 if anything failed.
"""
import argparse
import collections
import concurrent.futures
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANITIZERS = {
    'asan': ['-Db_sanitize=address,undefined'],
    # The thread sanitizer does not understand fences, and gcc warns at each.
    'tsan': ['-Db_sanitize=thread', '-Dc_args=-Wno-tsan'],
}
LINT_WORDS = {0: 'ok', 77: 'skipped'}  # exit statuses of the scripts; others are failures
# Lines of nic, pool and what is below it that the tests must reach, in percent; and of the engines.
COVERAGE_MIN = float(os.environ.get('COVERAGE_MIN', '90'))
ENGINES_MIN = 95.0
MIDDLE = ('src/nic/', 'src/pool/', 'src/backing/', 'src/mailbox/', 'src/migrate/')
ENGINES = ('src/wire/roce/',)
LINK, HANDED, CARD = ('src/link/',), ('src/transport/handed/',), ('src/card/',)
NOT_CARD = ('src/card/torus/',)  # the cards of another wire
COVERED = (('nic and pool', MIDDLE, COVERAGE_MIN), ('src/wire/roce', ENGINES, ENGINES_MIN), ('src/link', LINK, COVERAGE_MIN),
           ('src/transport/handed', HANDED, COVERAGE_MIN), ('src/card without torus', CARD, COVERAGE_MIN))
# Where tests of whole programs are that count (mark `counted`), beside those in C: of `weft info` and `weft host`, which read a pool
# from outside; and of what goes by a wire, as cards are programs, and so are those that hand requests to them.
COUNTED = [f'tests/{name}' for name in ('cli', 'hosts', 'wire', 'torus')]


# The parts of Weft whose share of the time `make check` prints, each with its folders of tests/, or files or programs there. All other
# tests are of `house`: programs within one host. WEFT_PART names the one whose tests alone are run.
PARTS = {'wire': ('wire', 'cli.test_nic'), 'torus': ('torus', 'ape', 'card', 'link', 'sim'),
         'gpu': ('gpu', 'softgpu', 'crash-gpu', 'model-gpu'), 'stream': ('nanet', 'stream'), 'hosts': ('hosts', 'lab')}
HOUSE = 'house'
# Of which part a folder of src/ is, the first that fits; the others are of the house.
SOURCES = {'src/wire/ape': 'torus', 'src/card/torus': 'torus', 'src/ape': 'torus', 'src/wire/nanet': 'stream', 'src/stream': 'stream',
           'src/cuda': 'gpu', 'src/wire': 'wire', 'src/link': 'wire', 'src/card': 'wire'}


def part_of(name):
    """The part that a test is of, by its name: folder-name in C, which meson tells behind its suites, folder.test_file in Python."""
    name = name.rsplit(' / ', 1)[-1]
    for part, places in PARTS.items():
        if name in places or re.split('[-.]', name)[0] in places or '.'.join(name.split('.')[:2]) in places:
            return part
    return HOUSE


def part_of_source(path):
    """The part that a file in C is of, by its path."""
    if path.startswith('tests/'):
        return part_of('.'.join(Path(path).parts[1:]))
    return next((part for folder, part in SOURCES.items() if path.startswith(f'{folder}/')), HOUSE)


def is_chosen(part):
    return os.environ.get('WEFT_PART', part) == part


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: tuple = ()  # of what failed or was skipped
    again: tuple = ()  # of what failed, but for sanitizers: (runner, its build folder, what it is told, its names above)
    seconds: collections.Counter = field(default_factory=collections.Counter, compare=False)  # by part

    def __add__(self, other):
        return Tally(self.passed + other.passed, self.failed + other.failed,
                     self.skipped + other.skipped, self.names + other.names, self.again + other.again,
                     self.seconds + other.seconds)

    def __str__(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def verdict(ok, name):
    return Tally(passed=1) if ok else Tally(failed=1, names=(f'failed: {name}',))


def failures(tally):
    return tuple(name for name in tally.names if name.startswith('failed: '))


def passed_over(name):
    return Tally(skipped=1, names=(f'skipped: {name}',))


def run(*argv, **env):
    """Runs a command with its output visible; whether it succeeded."""
    argv = [str(a) for a in argv]
    return subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, check=False).returncode == 0


class BuildFailed(Exception):
    """Names the folder that does not build."""


def installed_since(file):
    """Whether packages came or went since: what the build did not find then may be there now."""
    packages = Path(os.environ.get('WEFT_PACKAGES', '/var/lib/dpkg/status'))
    return packages.exists() and packages.stat().st_mtime > file.stat().st_mtime


def build(folder, *options):
    ninja = folder / 'build.ninja'
    if not ninja.exists():
        if not run('meson', 'setup', *options, folder):
            raise BuildFailed(folder.name)
    elif installed_since(ninja) and not run('meson', 'setup', '--reconfigure', folder):
        raise BuildFailed(folder.name)
    if not run('ninja', '-C', folder):
        raise BuildFailed(folder.name)


def tap_cases(test):
    """The cases of one test program, from a line of meson's testlog.json."""
    name, tally = test['name'], Tally()
    for line in (test.get('stdout') or '').splitlines():
        match = re.match(r'(not )?ok \d+(?: - (\w+))?(.*# SKIP(?: (\w+))?)?', line)
        if match:
            case = f'{name}::{match[2] or match[4]}'
            tally += passed_over(case) if match[3] else verdict(not match[1], case)
    if test['result'] == 'SKIP' and not tally.skipped:
        tally += passed_over(name)
    if test['result'] not in ('OK', 'SKIP', 'EXPECTEDFAIL') and not tally.failed:
        tally += verdict(False, f'{name}: {test["result"]}')  # it crashed or timed out
    return tally if tally != Tally() else verdict(True, name)


def tests_of(folder, options):
    """The names of the test programs that those options choose, of the part that is run."""
    listed = subprocess.run(['meson', 'test', '-C', folder, '--no-rebuild', '--list', *options], text=True,
                            cwd=ROOT, capture_output=True, check=True).stdout
    names = {line.rsplit(' / ', 1)[-1].strip() for line in listed.splitlines()}
    return sorted(name for name in names if name and is_chosen(part_of(name)))


def unit(folder, *options, wrapper=(), logbase='testlog', **env):
    log = folder / 'meson-logs' / f'{logbase}.json'
    log.unlink(missing_ok=True)
    names = tests_of(folder, options) if 'WEFT_PART' in os.environ else ()
    if 'WEFT_PART' in os.environ and not names:
        return Tally()
    ok = run(*wrapper, 'meson', 'test', '-C', folder, '--no-rebuild', '--print-errorlogs', '--logbase',
             logbase, *options, *names, CMOCKA_MESSAGE_OUTPUT='TAP', **env)
    tests = [json.loads(line) for line in (log.read_text().splitlines() if log.exists() else [])]
    tally = Tally()
    for test in tests:
        of_it = tap_cases(test)
        of_it.seconds[part_of(test['name'])] += test.get('duration', 0)
        if of_it.failed:
            of_it.again = (('unit', str(folder), test['name'].rsplit(' / ', 1)[-1], failures(of_it)),)
        tally += of_it
    return tally if ok or tally.failed else tally + verdict(False, 'meson test')


def pytest_case(case, folder):
    name = f'{case.get("classname")}::{case.get("name")}'
    if case.find('skipped') is not None:
        return passed_over(name)
    tally = verdict(case.find('failure') is None and case.find('error') is None, name)
    if tally.failed:
        tally.again = (('pytest', str(folder), f'tests/{case.get("classname").replace(".", "/")}.py::{case.get("name")}', failures(tally)),)
    return tally


def pytest(folder, marks, *options, name='pytest', where=('tests',), **env):
    report = folder / f'{name}.xml'
    report.unlink(missing_ok=True)
    ok = run('/usr/bin/python3', '-m', 'pytest', '-p', 'no:cacheprovider', '-ra', '--durations=20', '-m', marks,
             f'--junit-xml={report}', *options, *where, WEFT_BUILD=str(folder),
             PYTHONDONTWRITEBYTECODE='1', **env)
    if not report.exists():
        return verdict(False, 'pytest')
    cases = list(xml.parse(report).getroot().iter('testcase'))
    tally = sum((pytest_case(case, folder) for case in cases), Tally())
    for case in cases:
        tally.seconds[part_of(case.get('classname'))] += float(case.get('time', 0))
    # pytest's status 5: nothing was selected, which is no failure of the tree.
    return tally if ok or tally.failed or tally == Tally() else tally + verdict(False, 'pytest')


def script(folder, path, *options):
    done = subprocess.run([path, *options], cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, 'WEFT_BUILD': str(folder)})
    status = done.returncode
    print(f'{done.stdout}{path.name}: {LINT_WORDS.get(status, "FAILED")}', flush=True)
    return passed_over(path.name) if status == 77 else verdict(status == 0, path.name)


def lint(folder):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = sorted((ROOT / 'tools').glob('check-*'))
        return sum(pool.map(lambda path: script(folder, path), paths), Tally())


def tidy_file(commands, source, *options):
    argv = ['clang-tidy', '-p', commands, '--quiet', '--warnings-as-errors=*',
            # A receive in hand ends with its pieces, and stands first in structs.
            '--extra-arg=-Wno-unknown-warning-option',
            '--extra-arg=-Wno-gnu-variable-sized-type-not-at-end', *options, source]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return source, done.returncode == 0, done.stdout


def tidy(folder, all_paths=True):
    """The analyzer, which walks through the paths of a program, is 93 % of the work: where it is not
    asked for all_paths, it looks at what is delivered, and the tests have the other checks."""
    less = [] if all_paths else ['--checks=-clang-analyzer-*']
    # The first command for a file is the product's; tests may compile it again with other options.
    once = {os.path.normpath(folder / e['file']): e for e in
            reversed(json.loads((folder / 'compile_commands.json').read_text()))}
    commands = folder / 'tidy'
    commands.mkdir(exist_ok=True)
    (commands / 'compile_commands.json').write_text(json.dumps(list(once.values())))
    sources = sorted(s for s in once if s.endswith('.c') and not s.startswith(str(folder))
                     and is_chosen(part_of_source(os.path.relpath(s, ROOT))))
    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tests = str(ROOT / 'tests')
        for source, ok, output in pool.map(
                lambda s: tidy_file(commands, s, *(less if s.startswith(tests) else [])), sources):
            name = os.path.relpath(source, ROOT)
            print(f'clang-tidy {name}: {"ok" if ok else "FAILED"}', flush=True)
            if not ok:
                print(output, flush=True)
            tally += verdict(ok, f'clang-tidy {name}')
    return tally


def prerequisites(folder, options, programs=()):
    """The targets that the tests chosen by those options need, and those of the folders in `programs`:
    not all that the folder could build."""
    names = tests_of(folder, options)
    tests = json.loads((folder / 'meson-info/intro-tests.json').read_text())
    targets = {target['id']: target for target in
               json.loads((folder / 'meson-info/intro-targets.json').read_text())}
    needed = {file for test in tests if test['name'] in names for needs in test['depends']
              for file in targets[needs]['filename']}
    needed |= {file for target in targets.values() for file in target['filename']
               if target['build_by_default'] and os.path.relpath(Path(target['defined_in']).parent, ROOT)
               in programs}
    return sorted(os.path.relpath(file, folder) for file in needed)


def build_tests(folder, chosen, *options, programs=(), all_again=False):
    """Sets the folder up, and builds what the chosen tests and programs need; all_again: and all else, if
    the folder was there before. Another process of this script may want the same: one builds, the other waits."""
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_tests_locked(folder, chosen, *options, programs=programs, all_again=all_again)
    finally:
        os.close(lock)


def build_tests_locked(folder, chosen, *options, programs, all_again):
    ninja = folder / 'build.ninja'
    older = ninja.exists()
    if not older or installed_since(ninja):
        again = ('--reconfigure',) if older else ()
        if not run('meson', 'setup', *again, *options, folder):
            raise BuildFailed(folder.name)
    # What is known of the folder's targets is as old as its build.ninja.
    if not run('ninja', '-C', folder, 'build.ninja'):
        raise BuildFailed(folder.name)
    targets = [] if older and all_again else prerequisites(folder, chosen, programs)
    if not run('ninja', '-C', folder, *targets):
        raise BuildFailed(folder.name)


def once(tally):
    """What fails here is not run again."""
    tally.again = ()
    return tally


def sanitizer_tests(name):
    return ['--no-suite', 'slow', '--no-suite', f'no-{name}']


def build_sanitized(folder, name):
    folder = folder.with_name(f'{folder.name}-{name}')
    # Instrumented code makes gcc warn of what plain code does not have.
    build_tests(folder, sanitizer_tests(name), *SANITIZERS[name], '-Db_lundef=false', '-Dwerror=false')
    return folder


def sanitized(folder, name, *options, patience=5, logbase='testlog'):
    folder = build_sanitized(folder, name)
    # gcc 12's thread sanitizer stops where the kernel randomizes addresses more than it expects.
    fixed = ('setarch', '-R')
    wrapper = fixed if name == 'tsan' and run(*fixed, 'true') else ()
    # One at a time: instrumented threads that spin would miss their time limits on few cores.
    return once(unit(folder, *sanitizer_tests(name), *options, '--num-processes', '1',
                     '--timeout-multiplier', str(patience), wrapper=wrapper, logbase=logbase,
                     UBSAN_OPTIONS='halt_on_error=1:print_stacktrace=1',
                     TSAN_OPTIONS=f'suppressions={ROOT}/tests/tsan.supp'))


COVERAGE_TESTS = ['--no-suite', 'slow', '--no-suite', 'long', '--no-suite', 'no-coverage']


def build_coverage(folder):
    folder = folder.with_name(f'{folder.name}-cov')
    # With less optimization gcc warns of what it otherwise sees to be right. gcovr fails at objects of older
    # sources, so that all is built again.
    build_tests(folder, COVERAGE_TESTS, '-Db_coverage=true', '-Doptimization=1', '-Dwerror=false',
                # And with the gates of words that other hosts have (pool/gate.c), as it has all programs.
                f'-Dc_args=-fprofile-update=atomic -DWEFT_GATES -include {ROOT}/tests/coverage.h',
                programs=('.', 'src/cli', 'tests/cli', 'tests/programs', 'tests/wire', 'tests/torus'), all_again=True)
    return folder


def coverage(folder):
    """The lines that the short tests in C reach, and those marked `counted`. Lines that only other programs or long runs reach do
    not count as tested; that those pass, the plain build has shown."""
    folder = build_coverage(folder)
    for old in folder.rglob('*.gcda'):
        old.unlink()
    # A program that is killed as it writes its counts leaves half of them: later ones complain of that into
    # a file, not into their output.
    env = {'GCOV_ERROR_FILE': str(folder / 'gcov-errors.txt')}
    # Only the user that built it may write the counts of a run, so that programs keep the user here.
    tally = unit(folder, *COVERAGE_TESTS, **env) + pytest(folder, 'counted and not slow', where=COUNTED, WEFT_KEEP_USER='1', **env)
    summary = folder / 'coverage.json'
    filters = [word for _, folders, _ in COVERED for part in folders for word in ('-f', part)]
    without = [word for part in NOT_CARD for word in ('-e', part)]
    if not run('gcovr', '-r', '.', '--object-directory', folder, *filters, *without,
               '--gcov-ignore-parse-errors', '--print-summary',
               '--json-summary', summary, '--txt', folder / 'coverage.txt', folder):
        return tally + verdict(False, 'gcovr')
    print((folder / 'coverage.txt').read_text())
    files = json.loads(summary.read_text())['files']
    for what, folders, wanted in COVERED:
        of_it = [file for file in files if file['filename'].startswith(folders)]
        percent = round(100 * sum(file['line_covered'] for file in of_it) /
                        max(1, sum(file['line_total'] for file in of_it)), 1)
        print(f'line coverage of {what}: {percent} % (wanted: {wanted:g} %)')
        if 'WEFT_PART' not in os.environ:  # of what all parts together reach
            tally += verdict(percent >= wanted, f'coverage of {what}: {percent} %')
    return tally


def gates(folder):
    """All that hosts do with each other, in a build in which an exchange on another host's word ends the process if the pool has no
    atomic instructions (pool/gate.c)."""
    folder = folder.with_name(f'{folder.name}-gates')
    build(folder, '-Dc_args=-DWEFT_GATES')
    names = [name for name in tests_of(folder, ['--no-suite', 'slow']) if name.startswith('hosts-')]
    return unit(folder, '--num-processes', '1', *names) + pytest(folder, 'not slow', where=('tests/hosts',))


ASIDE = ('--suite', 'aside')
NOT_ASIDE = ('--no-suite', 'aside')
ALONE = ('--suite', 'alone')
WAITS = ('--suite', 'waits')
NOT_WAITS = ('--no-suite', 'waits')
LINT = 'format, layers, sizes, freestanding nic'
# So many times longer may a test take that has a core only while no other process wants one.
STARVED = 20
STARVED_S = 3000
# Which processes of this script run beside which target, and what they do.
BESIDE = {'all': ('aside', 'asleep'), 'quick': ('programs-quick',)}


def stages(folder, beside):
    """Each stage by name: what it does, which of `make`'s targets, or of the processes beside them, it
    belongs to, and how."""
    return [
        ('pytest', 'whole programs', {'programs-quick'}, lambda: pytest(folder, 'quick and not waits')),
        ('lint', LINT, {'programs-quick', 'lint'}, lambda: lint(folder)),

        ('asan', 'builds', {'aside'}, lambda: build_sanitized(folder, 'asan') and Tally()),
        ('tsan', 'builds', {'aside'}, lambda: build_sanitized(folder, 'tsan') and Tally()),
        ('coverage', 'builds', {'aside'}, lambda: build_coverage(folder) and Tally()),
        ('unit', 'in virtual time', {'aside'},
         lambda: unit(folder, '--no-suite', 'slow', *ASIDE, '--num-processes', '1',
                      '--timeout-multiplier', str(STARVED), logbase='testlog-aside')),
        *((name, 'test programs in virtual time, sanitized', {'aside'},
           lambda name=name: sanitized(folder, name, *ASIDE, patience=STARVED, logbase='testlog-aside'))
          for name in SANITIZERS),
        ('pytest', 'of the tree', {'aside'},
         lambda: pytest(folder, 'aside and not slow', f'--timeout={STARVED_S}', name='pytest-aside')),
        ('lint', LINT, {'aside'}, lambda: lint(folder)),
        ('tidy', 'clang-tidy', {'aside'}, lambda: tidy(folder, all_paths=False)),
        ('tidy', 'clang-tidy', {'tidy', 'slow'}, lambda: tidy(folder)),

        ('unit', 'that sleep', {'asleep'},
         lambda: unit(folder, '--no-suite', 'slow', *WAITS, '--num-processes', '1', logbase='testlog-waits')),
        ('pytest', 'that sleep', {'asleep'}, lambda: pytest(folder, 'waits and not slow', name='pytest-waits')),
        *((name, 'that sleep, sanitized', {'asleep'},
           lambda name=name: sanitized(folder, name, *WAITS, logbase='testlog-waits')) for name in SANITIZERS),

        ('unit', 'test programs in C', {'all'},
         lambda: unit(folder, '--no-suite', 'slow', *NOT_ASIDE, *NOT_WAITS, '--no-suite', 'alone')),
        ('unit', 'test programs in C', {'quick'},
         lambda: unit(folder, '--no-suite', 'slow', '--no-suite', 'long', '--no-suite', 'not-quick', *NOT_WAITS)),
        ('pytest', 'whole programs', {'all'},
         lambda: pytest(folder, 'not slow and not aside and not waits and not alone')),
        ('join', 'whole programs', {'quick'}, lambda: beside['programs-quick'].join()),
        ('slow', 'the documented slow tests', {'slow'},
         lambda: unit(folder, '--suite', 'slow') + pytest(folder, 'slow', '--timeout=0')),
        ('gates', 'between hosts, each exchange looked at', {'slow', 'gates'}, lambda: gates(folder)),

        ('asan', 'test programs in C, sanitized', {'all'},
         lambda: sanitized(folder, 'asan', *NOT_ASIDE, *NOT_WAITS)),
        ('asan', 'test programs in C, sanitized', {'asan'}, lambda: sanitized(folder, 'asan')),
        ('tsan', 'test programs in C, sanitized', {'all'},
         lambda: sanitized(folder, 'tsan', *NOT_ASIDE, *NOT_WAITS)),
        ('tsan', 'test programs in C, sanitized', {'tsan'}, lambda: sanitized(folder, 'tsan')),
        ('coverage', 'of nic, pool and engines', {'all', 'coverage'}, lambda: coverage(folder)),

        ('join', 'what slept', {'all'}, lambda: beside['asleep'].join()),
        ('join', 'what ran beside', {'all'}, lambda: beside['aside'].join()),
        ('unit', 'with limits of time', {'all'},
         lambda: unit(folder, '--no-suite', 'slow', *ALONE, logbase='testlog-alone')),
        ('pytest', 'of speed', {'all'},
         lambda: pytest(folder, 'alone and not slow', name='pytest-alone')),
        ('works', 'the table in README.md', {'all'},
         lambda: Tally() if 'WEFT_PART' in os.environ else script(folder, ROOT / 'tools/works.py', '--check')),
    ]


class Beside:
    """The stages of a target, in a process of their own. Its output is shown when it is joined. It stays in this session, as Linux shares the
    cores out among sessions first: in one of its own SCHED_IDLE would have half of them."""

    def __init__(self, args, folder, target):
        self.target, self.log = target, folder / f'{target}.log'
        self.tally = folder / f'{target}.json'
        self.tally.unlink(missing_ok=True)
        with open(self.log, 'w') as log:
            self.child = subprocess.Popen(
                [sys.executable, __file__, '--build', args.build, '--tally', self.tally, target],
                stdout=log, stderr=subprocess.STDOUT, process_group=0)

    def join(self):
        self.child.wait()
        print(self.log.read_text(errors='replace'), flush=True)
        if not self.tally.exists():
            return verdict(False, f'{self.target} beside ended with {self.child.returncode}')
        passed, failed, skipped, names, again, seconds = json.loads(self.tally.read_text())
        return Tally(passed, failed, skipped, tuple(names), tuple(again), collections.Counter(seconds))

    def end(self):
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGTERM)
            self.child.wait()


def run_stage(name, title, stage):
    print(f'\n== {name}: {title}', flush=True)
    begun = time.monotonic()
    try:
        tally = stage()
    except BuildFailed as failure:
        print(f'{failure} does not build')
        tally = verdict(False, failure)
    took = time.monotonic() - begun
    print(f'== {name}: {tally} in {took:.0f} s', flush=True)
    tally.seconds = shared(took, tally.seconds)
    return tally


# If more failed, it was not for want of a core.
AGAIN_MOST = 20


def run_again(tally):
    """What failed beside others, each by itself. What passes then is counted as passed, and named."""
    if not tally.again or len(tally.again) > AGAIN_MOST:
        return tally
    print('\n== again: what failed beside others, by itself', flush=True)
    passed, failed, names = tally.passed, tally.failed, list(tally.names)
    for number, (runner, folder, what, failed_names) in enumerate(tally.again):
        folder = Path(folder)
        second = (unit(folder, '--num-processes', '1', what, logbase=f'testlog-again-{number}') if runner == 'unit' else
                  pytest(folder, '', name=f'pytest-again-{number}', where=(what,)))
        if second.failed or not second.passed:
            continue
        passed, failed = passed + len(failed_names), failed - len(failed_names)
        for name in failed_names:
            names.remove(name)
            names.append(f'failed beside others, passed by itself: {name.removeprefix("failed: ")}')
    return Tally(passed, failed, tally.skipped, tuple(names), (), tally.seconds)


def shared(took, seconds):
    """The time of a stage, divided among the parts as the times of their tests are (several run at once). A stage without tests
    counts for `house`."""
    whole = seconds.total()
    return collections.Counter({part: took * of_it / whole for part, of_it in seconds.items()} if whole else
                               {HOUSE: took})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default='build', help='the build folder')
    parser.add_argument('--part', choices=[HOUSE, *PARTS], help='run the tests of this part alone; lines covered and the table in README.md, which are of all, are not judged')
    parser.add_argument('--tally', help='where the counts go, for another process')
    besides = [name for names in BESIDE.values() for name in names]
    parser.add_argument('target', choices=['all', 'quick', 'lint', 'tidy', 'asan', 'tsan',
                                           'coverage', 'gates', 'slow', *besides])
    args = parser.parse_args()
    if args.part:
        os.environ['WEFT_PART'] = args.part  # for the processes beside, and pytest
    os.umask(0o022)  # programs under test run as another user and must read the build
    folder = (ROOT / args.build).resolve()
    start = time.monotonic()
    tally, beside = Tally(), {}
    if args.target == 'aside':
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if args.target not in besides:
        for names in 'pytest-again-*.xml', 'meson-logs/testlog-again-*.json':
            for old in folder.parent.glob(f'{folder.name}*/{names}'):
                old.unlink()
        tally += run_stage('build', 'warnings are errors', lambda: build(folder) or Tally())
    chosen = [] if tally.failed else [s for s in stages(folder, beside) if args.target in s[2]]
    try:
        for name in BESIDE.get(args.target, ()) if chosen else ():
            beside[name] = Beside(args, folder, name)
        for name, title, _, stage in chosen:
            if name == 'works':
                tally = run_again(tally)
            tally += run_stage(name, title, stage)
    finally:
        for other in beside.values():
            other.end()
    shares = ', '.join(f'{part} {seconds:.0f}' for part, seconds in tally.seconds.most_common())
    print(f'\n{time.monotonic() - start:.0f} s: {shares}')
    if args.tally:
        Path(args.tally).write_text(json.dumps([tally.passed, tally.failed, tally.skipped, tally.names, tally.again, tally.seconds]))
    print(*sorted(tally.names, reverse=True), tally, sep='\n')
    return 1 if tally.failed else 0


if __name__ == '__main__':
    sys.exit(main())
