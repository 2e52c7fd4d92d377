# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The checkers of comments, headers and names: what is right passes, and each fault is named."""
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.quick, pytest.mark.aside]
TOOLS = Path(__file__).resolve().parents[2] / 'tools'
POOL = '''/* What weft_pool_get (pool/open.c) gives: struct weft_pool.members, by weft_pool_get(). */
struct weft_pool {
	int members; /* of the `weft_pool`; WEFT_MOST at most */
};
#define WEFT_MOST 3
int weft_pool_get(void);
'''


def tool(name, root, *argv):
    return subprocess.run([TOOLS / name, '--root', root, *argv], text=True, capture_output=True, check=False)


def put(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize('becomes, offence', [
    (('', ''), None),
    (('pool/open.c', 'pool/shut.c'), 'there is no pool/shut.c'),
    (('pool/open.c', 'open.c'), None),
    (('pool/open.c', 'shut.c'), 'there is no shut.c'),
    (('pool/open.c', 'tools/shut.py'), 'there is no tools/shut.py'),
    (('(pool/open.c)', '(pool/open.c, docs/NAME.c)'), 'there is no docs/NAME.c'),
    (('(pool/open.c)', '(as any NAME.c)'), None),
    (('by weft_pool_get()', 'by weft_pool_take()'), 'nothing is called weft_pool_take'),
    (('by weft_pool_get()', 'by pool_take()'), 'nothing is called pool_take'),
    (('by weft_pool_get()', 'by fork()'), 'nothing is called fork'),
    (('`weft_pool`', '`weft_pond`'), 'nothing is called weft_pond'),
    (('WEFT_MOST at', 'WEFT_LEAST at'), 'nothing is called WEFT_LEAST'),
    (('weft_pool.members', 'weft_pool.guests'), 'struct weft_pool has no guests'),
    (('(pool/open.c)', '(infiniband/verbs.h)'), None),
    (('What weft', 'Who has what weft'), 'says "Who"'),
    (('gives:', 'gives him:'), 'says "him"'),
    (('gives:', 'gives whoever asks:'), 'says "whoever"'),
    (('gives:', 'gives the whole:'), None),
])
def test_comments(tmp_path, becomes, offence):
    put(tmp_path, 'src/pool/open.c', 'int weft_pool_get(void)\n{\n\treturn 0;\n}\nconst char *he = "/* who */";\n')
    put(tmp_path, 'src/pool/pool.h', POOL.replace(*becomes, 1))
    done = tool('check-comments.py', tmp_path)
    assert done.returncode == bool(offence), done
    assert (offence or '') in done.stdout and len(done.stdout.splitlines()) == bool(offence)


@pytest.mark.parametrize('folder', ['src', 'tests', 'sim', 'bench', 'examples'])
def test_roles_everywhere(tmp_path, folder):
    put(tmp_path, f'{folder}/a.c', '/* Roles. */\nint a; /* for whoever\n * he is */\n')
    said = tool('check-comments.py', tmp_path).stdout.splitlines()
    assert said == [f'{folder}/a.c:2: says "whoever": name the role', f'{folder}/a.c:3: says "he": name the role']


def test_roles_in_scripts(tmp_path):
    put(tmp_path, 'tests/a.py', '"""What it does.\n\nFor whom."""\nwho = "he"  # his\n')
    said = tool('check-comments.py', tmp_path).stdout.splitlines()
    assert said == ['tests/a.py:3: says "whom": name the role', 'tests/a.py:4: says "his": name the role']


def shape(root, lines=250, files=40, check='struct weft_one {\n};\nstatic int check(void)\n{\n}\n'):
    put(root, 'src/pool/format.h', '\n' * lines)
    put(root, 'src/pool/pool.h', '#include "pool/format.h"\n' + '\n' * 300)
    for i in range(files):
        put(root, f'src/pool/a{i}.c', '#include "pool/pool.h"\n' + (check if not i else ''))


@pytest.mark.parametrize('lines, files, second, offence', [
    (250, 40, '', None),
    (251, 40, '', 'pool/format.h has 251 lines, 250 allowed'),
    (250, 41, '', 'pool/format.h has 41 files, 40 allowed'),
    (250, 39, 'int check(int a,\n\t  int b)\n{\n}\n', 'check has 2 names, 1 allowed'),
    (250, 39, 'struct weft_one {\n};\n', 'struct weft_one has 2 names, 1 allowed'),
    (250, 39, 'struct weft_two {\n};\n', None),
    (250, 39, 'int check(void);\n', None),
])
def test_headers(tmp_path, lines, files, second, offence):
    shape(tmp_path, lines, files)
    if second:
        put(tmp_path, 'src/nic/b.c', second)
    done = tool('check-headers.py', tmp_path, '--debts', tmp_path / 'debts.tsv')
    assert done.returncode == bool(offence), done
    assert (offence or '') in done.stdout and len(done.stdout.splitlines()) == bool(offence)


def test_debts_only_shrink(tmp_path):
    debts = tmp_path / 'debts.tsv'
    debts.write_text('# why\nlines\tpool/format.h\t300\nfiles\tpool/format.h\t50\n')
    for lines, files, status, left in [(300, 50, 0, '300 50'), (301, 50, 1, '300 50'), (270, 45, 0, '270 45'),
                                       (271, 45, 1, '270 45'), (250, 45, 0, '45')]:
        for old in tmp_path.glob('src/pool/a*.c'):
            old.unlink()
        shape(tmp_path, lines, files)
        assert tool('check-headers.py', tmp_path, '--debts', debts, '--settle').returncode == status
        text = debts.read_text().splitlines()
        assert text[0] == '# why' and ' '.join(line.split('\t')[2] for line in text[1:]) == left
