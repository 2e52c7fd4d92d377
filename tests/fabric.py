# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The programs of bench/pairs.py as the tests run them: over the build, as an ordinary user. If the tests
run as root, that is the user nobody."""
import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'bench'))
import pairs  # noqa: E402
from pairs import Trouble, free_port, listening, wait_for  # noqa: E402,F401  (for the tests)

BUILD = Path(os.environ.get('WEFT_BUILD', Path(__file__).resolve().parent.parent / 'build'))
NOBODY = 65534


def executed(out):
    """How many instructions callgrind has counted, by its file."""
    return int(re.search(r'^(?:summary|totals): (\d+)', Path(out).read_text(), re.M)[1])


def user_prefix():
    """The words that start a program as an ordinary user: root becomes nobody. WEFT_KEEP_USER is for
    runs that measure coverage."""
    if os.geteuid() != 0 or os.environ.get('WEFT_KEEP_USER'):
        return []
    return ['setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups',
            '--inh-caps=-all', '--']


@functools.cache
def namespaces():
    """Whether an ordinary user may make network namespaces, in a user namespace."""
    words = [*user_prefix(), 'unshare', '-rn', 'true']
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@functools.cache
def installed():
    """An installation that an ordinary user may read, removed at exit, as a build below a home
    folder is closed to others. Not in /dev/shm, which is often mounted noexec."""
    folder = Path(tempfile.mkdtemp(prefix='weft-installed-'))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', folder],
                   check=True)
    return folder


class Fabric(pairs.Fabric):
    def __init__(self):
        prefix = user_prefix()
        home = installed() if prefix else BUILD
        super().__init__(next(home.glob('**/bin/weft'), home / 'weft'), home, prefix)
        if 'GCOV_ERROR_FILE' in os.environ:
            self.env['GCOV_ERROR_FILE'] = os.environ['GCOV_ERROR_FILE']

    def program(self, name):
        """The path of a program of the tests or bench, where the user can run it."""
        folders = ('tests/programs', 'tests/torus', 'tests/nanet', 'tests/cli', 'tests/differential', 'tests/wire', 'tests/lab', 'tests/hosts', 'bench', 'examples', 'examples/torus')
        source = next(path for folder in folders
                      if (path := BUILD / folder / name).exists())
        copy = self.home / name
        return source if self.home == BUILD else copy if copy.exists() else shutil.copy2(source, copy)
