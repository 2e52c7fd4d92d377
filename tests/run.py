#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs the stages of `make check` in order and ends with `N passed, N failed, N skipped`.

A stage builds what it needs in its own folder and counts the test cases that it ran. A test case is
a case of a C test program (cmocka's TAP lines; a program without them is one case), a pytest case,
a lint script, or a file under clang-tidy. The exit status is 1 if anything failed.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANITIZERS = {
    'asan': ['-Db_sanitize=address,undefined'],
    # It does not understand fences, and gcc says so at each.
    'tsan': ['-Db_sanitize=thread', '-Dc_args=-Wno-tsan'],
}
LINT_WORDS = {0: 'ok', 77: 'skipped'}  # exit statuses of the scripts; others are failures
# Lines of src/nic and src/pool that the tests must reach, in percent; and of the engines.
COVERAGE_MIN = float(os.environ.get('COVERAGE_MIN', '90'))
ENGINES_MIN = 95.0


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: tuple = ()  # of what failed or was skipped

    def __add__(self, other):
        return Tally(self.passed + other.passed, self.failed + other.failed,
                     self.skipped + other.skipped, self.names + other.names)

    def __str__(self):
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def verdict(ok, name):
    return Tally(passed=1) if ok else Tally(failed=1, names=(f'failed: {name}',))


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


def unit(folder, *options, wrapper=(), **env):
    log = folder / 'meson-logs' / 'testlog.json'
    log.unlink(missing_ok=True)
    ok = run(*wrapper, 'meson', 'test', '-C', folder, '--no-rebuild', '--print-errorlogs', *options,
             CMOCKA_MESSAGE_OUTPUT='TAP', **env)
    lines = log.read_text().splitlines() if log.exists() else []
    tally = sum((tap_cases(json.loads(line)) for line in lines), Tally())
    return tally if ok or tally.failed else tally + verdict(False, 'meson test')


def pytest_case(case):
    name = f'{case.get("classname")}::{case.get("name")}'
    if case.find('skipped') is not None:
        return passed_over(name)
    return verdict(case.find('failure') is None and case.find('error') is None, name)


def pytest(folder, marks, *options, **env):
    report = folder / 'pytest.xml'
    report.unlink(missing_ok=True)
    ok = run('/usr/bin/python3', '-m', 'pytest', '-p', 'no:cacheprovider', '-ra', '-m', marks,
             f'--junit-xml={report}', *options, 'tests', WEFT_BUILD=str(folder),
             PYTHONDONTWRITEBYTECODE='1', **env)
    if not report.exists():
        return verdict(False, 'pytest')
    tally = sum(map(pytest_case, xml.parse(report).getroot().iter('testcase')), Tally())
    # pytest's status 5: nothing was selected, which is no failure of the tree.
    return tally if ok or tally.failed or tally == Tally() else tally + verdict(False, 'pytest')


def script(folder, path, *options):
    status = subprocess.run([path, *options], cwd=ROOT, check=False,
                            env={**os.environ, 'WEFT_BUILD': str(folder)}).returncode
    print(f'{path.name}: {LINT_WORDS.get(status, "FAILED")}', flush=True)
    return passed_over(path.name) if status == 77 else verdict(status == 0, path.name)


def lint(folder):
    return sum((script(folder, path) for path in sorted((ROOT / 'tools').glob('check-*'))), Tally())


def tidy_file(commands, source):
    argv = ['clang-tidy', '-p', commands, '--quiet', '--warnings-as-errors=*',
            '--extra-arg=-Wno-unknown-warning-option', source]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return source, done.returncode == 0, done.stdout


def tidy(folder):
    # As the product compiles a file, which is the first time: tests may do so again.
    once = {os.path.normpath(folder / e['file']): e for e in
            reversed(json.loads((folder / 'compile_commands.json').read_text()))}
    commands = folder / 'tidy'
    commands.mkdir(exist_ok=True)
    (commands / 'compile_commands.json').write_text(json.dumps(list(once.values())))
    sources = sorted(s for s in once if s.endswith('.c') and not s.startswith(str(folder)))
    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, ok, output in pool.map(lambda s: tidy_file(commands, s), sources):
            name = os.path.relpath(source, ROOT)
            print(f'clang-tidy {name}: {"ok" if ok else "FAILED"}', flush=True)
            if not ok:
                print(output, flush=True)
            tally += verdict(ok, f'clang-tidy {name}')
    return tally


def sanitized(folder, name):
    folder = folder.with_name(f'{folder.name}-{name}')
    # Instrumented code makes gcc warn of what plain code does not have.
    build(folder, *SANITIZERS[name], '-Db_lundef=false', '-Dwerror=false')
    # gcc 12's thread sanitizer stops where the kernel randomizes addresses more than it expects.
    fixed = ('setarch', '-R')
    wrapper = fixed if name == 'tsan' and run(*fixed, 'true') else ()
    # One at a time: instrumented threads that spin would miss their time limits on few cores.
    return unit(folder, '--no-suite', 'slow', '--no-suite', f'no-{name}', '--num-processes', '1',
                '--timeout-multiplier', '5', wrapper=wrapper,
                UBSAN_OPTIONS='halt_on_error=1:print_stacktrace=1',
                TSAN_OPTIONS=f'suppressions={ROOT}/tests/tsan.supp')


def coverage(folder):
    folder = folder.with_name(f'{folder.name}-cov')
    # Less optimization makes gcc warn of what it else sees to be none.
    build(folder, '-Db_coverage=true', '-Doptimization=1', '-Dwerror=false',
          f'-Dc_args=-fprofile-update=atomic -include {ROOT}/tests/coverage.h')
    for old in folder.rglob('*.gcda'):
        old.unlink()
    # Only who built it may write the counts of a run, so that programs keep the user here; tests of
    # users, of speed and of what a library does when it is loaded are for the plain build.
    plain = ['house', 'speed', 'scale', 'events', 'containers', 'delivery', 'abi',
             'fuzz', 'wire', 'ape', 'stream', 'gpu', 'interop/test_fabric.py']
    # A program that is killed as it writes its counts leaves half of them: what later ones say of
    # that is no output of theirs.
    env = {'GCOV_ERROR_FILE': str(folder / 'gcov-errors.txt')}
    tally = unit(folder, '--no-suite', 'slow', '--no-suite', 'no-coverage', **env) + pytest(
        folder, 'not slow', *(f'--ignore=tests/{name}' for name in plain), WEFT_KEEP_USER='1',
        **env)
    summary = folder / 'coverage.json'
    if not run('gcovr', '-r', '.', '--object-directory', folder, '-f', 'src/nic/', '-f',
               'src/pool/', '-f', 'src/wire/roce/', '--gcov-ignore-parse-errors', '--print-summary',
               '--json-summary', summary, '--txt', folder / 'coverage.txt', folder):
        return tally + verdict(False, 'gcovr')
    print((folder / 'coverage.txt').read_text())
    files = json.loads(summary.read_text())['files']
    for what, folders, wanted in [('src/nic and src/pool', ('src/nic/', 'src/pool/'), COVERAGE_MIN),
                                  ('src/wire/roce', ('src/wire/roce/',), ENGINES_MIN)]:
        of_it = [file for file in files if file['filename'].startswith(folders)]
        percent = round(100 * sum(file['line_covered'] for file in of_it) /
                        max(1, sum(file['line_total'] for file in of_it)), 1)
        print(f'line coverage of {what}: {percent} % (wanted: {wanted:g} %)')
        tally += verdict(percent >= wanted, f'coverage of {what}: {percent} %')
    return tally


def stages(folder):
    """Each stage by name: what it does, which of `make`'s targets it belongs to, and how."""
    return [
        ('lint', 'layers, sizes, freestanding nic', {'all', 'quick', 'lint'},
         lambda: lint(folder)),
        ('unit', 'test programs in C', {'all'}, lambda: unit(folder, '--no-suite', 'slow')),
        ('unit', 'test programs in C', {'quick'},
         lambda: unit(folder, '--no-suite', 'slow', '--no-suite', 'long')),
        ('pytest', 'whole programs', {'all'}, lambda: pytest(folder, 'not slow')),
        ('pytest', 'whole programs', {'quick'}, lambda: pytest(folder, 'quick')),
        ('works', 'the table in README.md', {'all'},
         lambda: script(folder, ROOT / 'tools/works.py', '--check')),
        ('slow', 'the documented slow tests', {'slow'},
         lambda: unit(folder, '--suite', 'slow') + pytest(folder, 'slow')),
        ('tidy', 'clang-tidy', {'all', 'tidy'}, lambda: tidy(folder)),
        ('asan', 'test programs in C, sanitized', {'all', 'asan'},
         lambda: sanitized(folder, 'asan')),
        ('tsan', 'test programs in C, sanitized', {'all', 'tsan'},
         lambda: sanitized(folder, 'tsan')),
        ('coverage', 'of nic and pool', {'all', 'coverage'}, lambda: coverage(folder)),
    ]


def run_stage(name, title, stage):
    print(f'\n== {name}: {title}', flush=True)
    begun = time.monotonic()
    try:
        tally = stage()
    except BuildFailed as failure:
        print(f'{failure} does not build')
        tally = verdict(False, failure)
    print(f'== {name}: {tally} in {time.monotonic() - begun:.0f} s', flush=True)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default='build', help='the build folder')
    parser.add_argument('target', choices=['all', 'quick', 'lint', 'tidy', 'asan', 'tsan',
                                           'coverage', 'slow'])
    args = parser.parse_args()
    os.umask(0o022)  # programs under test run as another user and must read the build
    folder = (ROOT / args.build).resolve()
    start = time.monotonic()
    tally = run_stage('build', 'warnings are errors', lambda: build(folder) or Tally())
    for name, title, targets, stage in stages(folder) if not tally.failed else []:
        if args.target in targets:
            tally += run_stage(name, title, stage)
    print(f'\n{time.monotonic() - start:.0f} s')
    print(*sorted(tally.names, reverse=True), tally, sep='\n')
    return 1 if tally.failed else 0


if __name__ == '__main__':
    sys.exit(main())
