# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The checker of the pages: what they name is there, and each kind of stale name is found. And the
program in docs/pool.md does what the page says."""
import re
import subprocess
from pathlib import Path

import pytest

from fabric import wait_for

pytestmark = pytest.mark.quick
ROOT = Path(__file__).resolve().parents[2]
CHECKER = ROOT / 'tools/check-docs.py'
CODE = '''/* gone() */
#define WEFT_LIMIT 3
struct weft_thing {
	int field;
};
struct weft_thing *weft_find(int key)
{
	return weft_called(key);
}
static void execute_read(void)
{
}
const struct weft_thing weft_table = {
};
'''


def check(tree, tour='', readme='', other=''):
    for path, text in (('src/nic/a.c', CODE), ('src/nic/b.c', ''), ('README.md', readme),
                       ('docs/tour.md', tour), ('docs/other.md', other)):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    return subprocess.run(['/usr/bin/python3', CHECKER, '--root', tree], text=True,
                          capture_output=True, check=False)


@pytest.mark.parametrize('tour', [
    '`weft_find` (nic/a.c)',
    '`weft_find()` (src/nic/a.c), `struct weft_thing`, `WEFT_LIMIT`, `weft_table`',
    '| a |\n|---|\n| `ibv_poll_cq` | `weft_find` |\nnic/b.c and nic/a.c |',
    '`execute_read`, `_read` (nic/a.c)',
    'a paragraph names\n`weft_find` in one line, nic/a.c in the next',
    '`ibv_post_send`',
])
def test_good_tour(tmp_path, tour):
    done = check(tmp_path, tour)
    assert (done.returncode, done.stdout) == (0, '')


@pytest.mark.parametrize('tour,line,offence', [
    ('`gone` (nic/a.c)', 1, 'gone'),                # named in a comment only
    ('`weft_called` (nic/a.c)', 1, 'weft_called'),  # called, not defined
    ('`weft_find` (nic/b.c)', 1, 'weft_find'),
    ('\n`weft_find`\n\nnic/a.c', 2, 'weft_find'),   # beside is in the same paragraph
    ('| `weft_find` |\n| nic/a.c |', 1, 'weft_find'),
    ('`struct weft_find` (nic/a.c)', 1, 'struct weft_find'),
    ('`execute_read`, `_write` (nic/a.c)', 1, 'execute_write'),
    ('`WEFT_LIM` (nic/a.c)', 1, 'WEFT_LIM'),
    ('text\n\n```\nnic/c.c\n```', 3, 'nic/c.c'),
])
def test_stale_tour(tmp_path, tour, line, offence):
    done = check(tmp_path, tour)
    assert done.returncode == 1
    assert done.stdout.startswith(f'docs/tour.md:{line}: ') and f' {offence}' in done.stdout


@pytest.mark.parametrize('link,status', [
    ('[x](docs/tour.md)', 0), ('[x](docs/tour.md#a-part)', 0), ('[x](docs/)', 0),
    ('[x](https://example.org/gone)', 0), ('[x](#here)', 0),
    ('[x](docs/gone.md)', 1), ('![x](docs/gone.svg)', 1),
])
def test_links(tmp_path, link, status):
    assert check(tmp_path, readme=link).returncode == status


@pytest.mark.parametrize('text,status', [
    ('`weft_find`, `struct weft_thing`, `WEFT_LIMIT`, `weft_fi*`', 0),
    ('`malloc`, `any_name`, `WEFT_SET=1`, `src/nic/b.c`, nic/a.c', 0),
    ('`weft_gone`', 1), ('`struct weft_gone`', 1), ('`WEFT_GONE`', 1), ('`weft_go*`', 1),
    ('`nic/c.c`', 1), ('(b.c)', 0), ('(c.c)', 1), ('tools/gone.py', 1), ('foo.c', 0),
])
def test_names_in_other_pages(tmp_path, text, status):
    assert check(tmp_path, other=text).returncode == status


@pytest.mark.parametrize('text,line', [
    ('| a | b |\n|---|:-:|\n| 1 | 2 |', None),
    ('```\n| a |\n```', None),
    ('| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n| 5 | 6 |', 5),
    ('text\n\n| a |', 3),
])
def test_tables(tmp_path, text, line):
    done = check(tmp_path, other=text)
    assert done.stdout == (f'docs/other.md:{line}: the row is in no table\n' if line else '')


@pytest.mark.parametrize('text,word', [
    ('an owner, whose lock it is; people who write programs; never "who" or "he"', None),
    ('one\ntwo, who waits', 'who'), ('one\nWhoever waits', 'Whoever'), ('one\nunder his name', 'his'),
])
@pytest.mark.parametrize('page', ['README.md', 'docs/other.md', 'man/weft-run.1'])
def test_persons(tmp_path, page, text, word):
    check(tmp_path)
    (tmp_path / page).parent.mkdir(exist_ok=True)
    (tmp_path / page).write_text(text)
    done = subprocess.run(['/usr/bin/python3', CHECKER, '--root', tmp_path], text=True, capture_output=True, check=False)
    assert done.stdout == (f'{page}:2: says "{word}": name the role\n' if word else '')


def test_program_of_the_pool_page(tmp_path, fabric):
    text = re.search(r'^```c\n(.*?)^```', (ROOT / 'docs/pool.md').read_text(), re.M | re.S)[1]
    (tmp_path / 'members.c').write_text(text)
    subprocess.run(['gcc', '-Wall', '-Wextra', '-Werror', '-D_GNU_SOURCE', f'-I{ROOT}/src',
                    tmp_path / 'members.c', '-o', tmp_path / 'members'], check=True)

    def members():
        done = subprocess.run([tmp_path / 'members', fabric.pool], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout.split()

    assert members() == (1, [])
    program = fabric.start('ibv_rc_pingpong', '-g', 3)
    wait_for(lambda: members()[1] != [], 'a member', 10)
    status, words = members()
    assert (status, words[0], words[2:]) == (0, '0', ['ibv_rc_pingpong', 'alive'])
    program.kill()
    wait_for(lambda: members() == (0, [*words[:3], 'dead']), 'the member is seen dead', 10)
