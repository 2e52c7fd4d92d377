# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The blocks of README.md that tools write: what stands between <!-- NAME: … --> and
<!-- end of NAME -->."""
import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / 'README.md'


def block(text, name):
    """The match of a block in a text; its group 2 is the content."""
    found = re.search(rf'(<!-- {name}: [^\n]*-->\n)(.*?)(<!-- end of {name} -->)', text, re.S)
    if not found:
        raise SystemExit(f'there is no block "{name}"')
    return found


def content(name, page=README):
    return block(page.read_text(), name)[2].splitlines()


def write(name, lines, page=README):
    text = page.read_text()
    found = block(text, name)
    page.write_text(text[:found.start(2)] + ''.join(f'{line}\n' for line in lines)
                    + text[found.end(2):])
