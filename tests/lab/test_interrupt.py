# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`lab/machines`, interrupted: no guest and no file of it is left."""
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fabric import BUILD

from lab.guests import LAB, missing

ENDS_S = 120


@pytest.fixture(autouse=True)
def can_boot():
    why = missing()
    if why:
        pytest.skip(why)


class Lab:
    def __init__(self, words):
        # a shell gives what it starts behind itself SIGINT to ignore
        self.process = subprocess.Popen(['env', '--default-signal=INT', LAB / 'machines', *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, start_new_session=True, env={**os.environ, 'WEFT_BUILD': str(BUILD)})
        line = self.process.stdout.readline()
        said = re.search('their files: (.*)', line)
        assert said, line + self.process.communicate()[0]
        self.folder = Path(said[1])

    def await_guests(self):
        """Both have begun."""
        while not all((self.folder / f'guest{number}.console').exists() for number in (0, 1)):
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.05)

    def running(self):
        """The command lines of all processes that it has begun and that run."""
        found = []
        for process in Path('/proc').glob('[0-9]*'):
            try:
                state, _, _, session = (process / 'stat').read_text().rpartition(')')[2].split()[:4]
                if int(session) == self.process.pid and state != 'Z':
                    found.append((process / 'cmdline').read_text().replace('\0', ' ')[:80])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def interrupt(self, number):
        """To the program alone, as by kill(1), which is harder than a terminal's interrupt: that one reaches its guests."""
        self.process.send_signal(number)
        said = self.process.communicate(timeout=ENDS_S)[0]
        assert self.process.returncode, said
        end = time.monotonic() + ENDS_S
        while self.running() and time.monotonic() < end:  # a guest that dies gives back its memory first
            time.sleep(0.1)
        assert not self.running() and not self.folder.exists(), said


def test_as_it_begins():
    Lab(['show']).interrupt(signal.SIGTERM)


@pytest.mark.parametrize('backing', ['pcie', 'cxl'])
def test_as_guests_boot(backing):
    why = missing(backing)
    if why:
        pytest.skip(why)
    made = Lab(['show', '--backing', backing])
    made.await_guests()
    made.interrupt(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM] * 3)
def test_at_any_moment(number):
    made = Lab(['show'])
    time.sleep(random.uniform(0, 60))
    if made.process.poll() is None:
        made.interrupt(number)
