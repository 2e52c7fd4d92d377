# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The checkers of clang-format and of commits: what is right passes, and each fault is named."""
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.aside
TOOLS = Path(__file__).resolve().parents[2] / 'tools'
GOOD = 'int weft_f(void)\n{\n\treturn 0;\n}\n'


def tool(name, *argv, **kept):
    return subprocess.run([TOOLS / name, *argv], text=True, capture_output=True, check=False, **kept)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / 'src/cli').mkdir(parents=True)
    shutil.copy(TOOLS.parent / '.clang-format', tmp_path)
    if tool('check-format.py', '--root', tmp_path).returncode == 77:
        pytest.skip('clang-format of that version is not installed')
    return tmp_path


@pytest.mark.parametrize('text, line', [
    (GOOD, None),
    (GOOD.replace('\t', '    '), 3),
    (GOOD.replace('\n{', ' {'), 1),
    (GOOD.replace('(void)', '( void )'), 1),
    (GOOD + '\n\n\n' + GOOD, 6),
    (GOOD + '/* ' + 'a comment of more than a line\'s columns ' * 4 + '*/\n', None),
])
def test_format(tree, text, line):
    (tree / 'src/cli/a.c').write_text(text)
    done = tool('check-format.py', '--root', tree)
    assert done.returncode == (line is not None), done
    assert not line or done.stdout.startswith(f'src/cli/a.c:{line}: out of format')
    tool('check-format.py', '--root', tree, '--mend')
    assert tool('check-format.py', '--root', tree).returncode == 0


def git(tree, *argv):
    done = subprocess.run(['git', '-C', tree, '-c', 'user.name=a', '-c', 'user.email=a@b', *argv],
                          check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize('message, offence', [
    ('pool: what is done\n\nWhy.', None),
    ('pool, nic: what is done\n\nWhy.', None),
    ('wire/roce: ' + 'x' * 61 + '\n\nWhy.', None),
    ('wire/roce: ' + 'x' * 62 + '\n\nWhy.', '73 characters'),
    ('Do something\n\nWhy.', 'is not `area: what`'),
    ('pool: what is done', 'no body'),
    ('pool: what is done\nWhy.\n\nMore.', 'second line'),
])
def test_commits(tmp_path, message, offence):
    git(tmp_path, 'init', '-q')
    git(tmp_path, 'commit', '--allow-empty', '-qm', 'Older than the rule')
    since = git(tmp_path, 'rev-parse', 'HEAD')
    git(tmp_path, 'commit', '--allow-empty', '-qm', message)
    git(tmp_path, 'commit', '--allow-empty', '-qm', 'pool: another\n\nWhy.')
    done = tool('check-commits.py', '--root', tmp_path, '--since', since)
    assert done.returncode == bool(offence), done
    assert (offence or '') in done.stdout and len(done.stdout.splitlines()) == bool(offence)


def test_commits_that_cannot_be_seen(tmp_path):
    assert tool('check-commits.py', '--root', tmp_path).returncode == 77
    git(tmp_path, 'init', '-q')
    git(tmp_path, 'commit', '--allow-empty', '-qm', 'Anything')
    done = tool('check-commits.py', '--root', tmp_path)
    assert done.returncode == 77 and 'does not reach back' in done.stdout
