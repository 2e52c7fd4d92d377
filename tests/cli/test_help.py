# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Every command that `weft --help` lists has its own --help and a manual page that names each of its
options; all pages are installed."""
import re
import subprocess
from pathlib import Path

import pytest

from fabric import BUILD

pytestmark = pytest.mark.quick

MAN = Path(__file__).resolve().parents[2] / 'man'


def weft(*words):
    done = subprocess.run([BUILD / 'weft', *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout


COMMANDS = re.findall(r'^  ([a-z]+) ', weft('--help'), re.M)


def test_commands():
    assert {'run', 'env', 'info', 'doctor', 'pool'} <= set(COMMANDS)


@pytest.mark.parametrize('command', COMMANDS)
def test_command(command):
    usage = weft(command, '--help')
    assert usage.startswith('Usage: ') and f'weft {command}' in usage.splitlines()[0]
    assert weft(command, '-h') == weft('help', command) == usage
    page = (MAN / f'weft-{command}.1').read_text().replace('\\-', '-')
    assert f'.TH WEFT-{command.upper()} 1 ' in page
    for option in re.findall(r'--[a-z]+', usage):
        assert option in page
    overview = (MAN / 'weft.1').read_text().replace('\\-', '-')
    assert f'weft-{command}' in overview


@pytest.mark.parametrize('words', ['pool create', 'host up', 'nic up', 'torus run', 'stream receive'])
def test_help_behind_a_verb(words):
    command, verb = words.split()
    assert weft(command, verb, '--help') == weft(command, verb, '-h') == weft(command, '--help')


def test_all_pages_are_installed():
    listed = re.findall(r"'([a-z_-]+\.[137])'", (MAN / 'meson.build').read_text())
    assert sorted(listed) == sorted(page.name for page in MAN.glob('*.[137]'))
