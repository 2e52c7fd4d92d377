# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The manual pages of libweft-ape: each call has one; each example compiles and runs; the errors that a page has are those
that tests reach, all of them and no other."""
import re
import shlex
import contextlib
import signal
import os
import subprocess
import threading
from pathlib import Path

import pytest

from fabric import installed
from live import is_running, kill, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.name: page.read_text() for page in sorted((ROOT / 'man').glob('ape*.[37]'))}
LINKS = {name: re.search(r'^\.so man3/(\S+)$', text, re.M)[1] for name, text in PAGES.items() if '\n.so ' in text}
PATIENCE_S = 240
PATIENCE, GIVE_UP = 204, 205  # registers, ms
EXAMPLES = [name for name in PAGES if name not in LINKS]
# More nodes than a live torus can have; the same engine is asked in virtual time.
ELSEWHERE = {('ape_poll', 'APE_NO_PEER'): ROOT / 'tests/ape/test_card.c'}


def calls():
    """What the header declares."""
    return set(re.findall(r'\b(ape_\w+)\(', re.sub(r'/\*.*?\*/', '', (ROOT / 'src/ape/weft/ape.h').read_text(), flags=re.S)))


def test_each_call_has_a_page():
    named = {}
    for name, text in PAGES.items():
        if name not in LINKS and name != 'ape.7':
            synopsis = text.split('.SH SYNOPSIS')[1].split('.SH DESCRIPTION')[0]
            for call in re.findall(r'(ape_\w+)\(', synopsis):
                named[call] = name
    assert set(named) == calls()
    for call, page in named.items():
        assert LINKS.get(f'{call}.3', f'{call}.3') == page
        assert re.search(rf'\b{call}\b', PAGES['ape.7']), f'ape(7) does not name {call}'


def example(name):
    text = PAGES[name].split('.SH EXAMPLE')[1]
    return re.search(r'^\.EX\n(.*?)^\.EE$', text, re.M | re.S)[1].replace(r'\e', '\\').replace(r'\-', '-')


def flags(*more):
    """As pkg-config has them for the installed library, without or with --static."""
    [pc] = installed().glob('**/libweft-ape.pc')
    said = subprocess.run(['pkg-config', '--define-variable', f'prefix={pc.parents[3]}', '--cflags', '--libs', *more,
                           'libweft-ape'], capture_output=True, text=True, check=True,
                          env={**os.environ, 'PKG_CONFIG_PATH': str(pc.parent)})
    return shlex.split(said.stdout)


def compile_example(live, name, options):
    program = installed() / f'example-{name}'
    done = subprocess.run(['gcc', '-std=c17', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-x', 'c', '-', '-x', 'none',
                           '-o', program, *options], input=example(name), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def test_examples(live):
    """Against the shared library, as `weft torus run` finds it."""
    live.weft('up', '2')
    for name in EXAMPLES:
        program = compile_example(live, name, flags())
        live.weft('run', *(['--each'] if name == 'ape.7' else []), '--', program)


def test_static(live):
    """All of the library in the program: it needs none of Weft's."""
    live.weft('up', '2')
    options = [word if word != '-lweft-ape' else '-l:libweft-ape.a' for word in flags('--static')]
    program = compile_example(live, 'ape_put.3', options)
    assert 'weft' not in subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
    assert live.weft('run', '--', program) == 'done: here  here \n'


def written():
    """Page and error, of all pages."""
    for name, text in PAGES.items():
        for section in re.findall(r'^\.SH (?:ERRORS|EVENTS)\n(.*?)(?=^\.SH)', text, re.M | re.S):
            for error in re.findall(r'^\.TP\n\.B (\S+)$', section, re.M):
                yield name.split('.')[0], error


def card_of(live):
    """Starts the card of node 1,0,0 again."""
    [home] = live.home.iterdir()
    weftd = next(live.fabric.home.glob('**/weftd'))
    return subprocess.Popen([*live.fabric.prefix, weftd, 'ape', home, '1,0,0'], env=live.env, cwd='/',
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def in_time(program):
    """One that says nothing for so long is ended, and its end is heard."""
    end = threading.Timer(PATIENCE_S, program.kill)
    end.start()
    try:
        yield
    finally:
        end.cancel()


def hear(program, lines, said):
    """Which of them comes."""
    with in_time(program):
        while (heard := program.stdout.readline().strip()) not in lines:
            assert heard, f'it ended before it said {lines}: {said}'
            said.append(heard + '\n')
    return heard


def go_on(program):
    program.stdin.write('\n')
    program.stdin.flush()


def end_of(program, said):
    with in_time(program):
        said += program.stdout.readlines()
    assert program.wait(PATIENCE_S) == 0, said
    return said


def reach(live, name, *words):
    return end_of(live.start('0,0,0', name, *words), [])


def reach_far(live):
    """A PUT, a GET and a SEND that are under way when the other card is another one; and when there is none."""
    said, cards = [], []
    program = live.start('0,0,0', 'torus-errors', 'far')
    pid = live.pids()['1,0,0']
    try:
        while hear(program, ['known'], said):
            os.kill(pid, signal.SIGSTOP)
            go_on(program)
            hear(program, ['posted'], said)
            kill([pid])
            cards.append(card_of(live))
            pid = cards[-1].pid
            go_on(program)
            is_over = hear(program, ['late', 'anew'], said) == 'anew'
            assert cards[-1].poll() is None, 'the new card has ended'
            if is_over:
                break
            go_on(program)
    finally:
        for card in cards:
            card.kill()
            card.wait()
    live.weft('reg', '0,0,0', f'{GIVE_UP}=500')
    go_on(program)
    return end_of(program, said)


def reach_gone(live):
    said = []
    program = live.start('0,0,0', 'torus-errors', 'gone')
    hear(program, ['open'], said)
    pid = live.pids()['0,0,0']
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_running(pid), 'the card does not end')
    go_on(program)
    return end_of(program, said)


def test_each_error(live):
    live.weft('up', '2')
    [home] = live.home.iterdir()
    live.weft('reg', '0,0,0', f'{PATIENCE}=300')
    said = reach(live, 'torus-calls') + reach(live, 'torus-fast') + reach(live, 'torus-errors', 'open', home / '0.0.0/pool')
    said += reach_far(live)
    said += reach_gone(live)
    reached = {(LINKS.get(f'{call}.3', f'{call}.3').split('.')[0], error)
               for call, error in re.findall(r'^reached (\w+) (\w+)$', '\n'.join(map(str.strip, said)), re.M)}
    # a descriptor that the library does not write ends in what its page need not have
    reached -= {('ape_poll', error) for _, error in written()} - set(written())
    for (call, error), source in ELSEWHERE.items():
        assert error.replace('APE_', 'WEFT_APE_', 1) in source.read_text()
        reached.add((call, error))
    reached.add(('ape_poll', 'APE_OK'))
    assert reached == set(written())


@pytest.mark.parametrize('missing', ['ape_fd.3'])
def test_the_check_can_fail(monkeypatch, missing):
    monkeypatch.delitem(PAGES, missing)
    with pytest.raises(AssertionError):
        test_each_call_has_a_page()
