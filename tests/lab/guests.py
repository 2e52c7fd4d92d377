# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The guests of lab/pooled.py, and what each host has counted."""
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from fabric import BUILD

LAB = Path(__file__).resolve().parent.parent.parent / 'lab'
sys.path.insert(0, str(LAB))
import pooled  # noqa: E402  pylint: disable=wrong-import-position
import vm  # noqa: E402  pylint: disable=wrong-import-position

COUNTERS = ('ops_write', 'bytes_write', 'ops_read', 'bytes_read', 'ops_send', 'bytes_send', 'ops_atomic')
GAVE_UP = re.compile('retry counter exceeded|[Ff]ailed status 12')
COUNTED_S = 300


def missing(backing='pcie'):
    """Why there can be no guests on such a memory; None: there can."""
    if why := vm.not_here():
        return why
    try:
        vm.kernel()
        vm.BACKINGS[backing].qemu()
    except (subprocess.SubprocessError, OSError, TypeError) as failure:
        return f"the guests' kernel or QEMU cannot be fetched: {failure}"
    return None


class Guests(pooled.Pooled):
    def install(self):
        super().install()
        for guest in self.guests:
            shutil.copy(BUILD / 'tests/wire/kills', guest.job)

    def info(self, host):
        return json.loads(self.guests[host].run(self.weft, 'info', '--pool', self.pool, '--json'))

    def pair(self, *words, **options):
        """These programs' queue pairs give up after half a second without an answer, for which an emulated guest on a busy
        machine may stand still: then they run once more."""
        try:
            return super().pair(*words, **options)
        except vm.Trouble as trouble:
            if not GAVE_UP.search(str(trouble)):
                raise
        return super().pair(*words, **options)

    def counted(self, host):
        """The sums of what programs of that host have carried that have ended, from its home."""
        self.guests[host].run(self.weft, 'pool', 'recover', '--pool', self.pool)
        words = subprocess.check_output([BUILD / 'tests/cli/layout'], text=True).split()
        at = int(words[words.index('departed') + 1])
        home = f'/dev/shm/weft-*-{host}'
        return dict(zip(COUNTERS, self.guests[host].call('words', home, at, len(COUNTERS)), strict=True))

    def loaded(self, host, name):
        """The libraries of that name that programs begun with $LD_DEBUG=files have loaded there since it was asked last."""
        return self.guests[host].call('told', '/tmp/loaded.*', f'calling init: (\\S*/{name})')

    def await_carried(self, host, before, counter, least):
        """What that host has carried since, when it is at least so much: the last program's counters are added when other
        hosts have said that they are done with it."""
        end = time.monotonic() + COUNTED_S
        while True:
            carried = {name: now - before[name] for name, now in self.counted(host).items()}
            if carried[counter] >= least:
                return carried
            if time.monotonic() > end:
                raise vm.Trouble(f'host {host} has carried {carried}, not {least} {counter}')
