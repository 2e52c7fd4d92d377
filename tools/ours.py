#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""tools/ours.py FOLDER: fails if that build folder, or one beside it (FOLDER-asan, FOLDER-dist/x86_64), was made
for another tree than this one, as when a tree was copied or moved with its build in it: meson has written down
the other's place, and what is built there is the other tree, if that is still there."""
import json
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
INFO = 'meson-info/meson-info.json'


def source(folder):
    """The tree that it was made for; None if it is no build folder."""
    try:
        return Path(json.loads((folder / INFO).read_text())['directories']['source']).resolve()
    except (OSError, ValueError, KeyError):
        return None


def strangers(folder):
    """The build folders that were made for another tree, each with that tree."""
    beside = [folder, *folder.parent.glob(f'{folder.name}-*'), *folder.parent.glob(f'{folder.name}-*/*')]
    return [(place, tree) for place in beside if (tree := source(place)) and tree != TREE]


def main():
    found = strangers(Path(sys.argv[1]).absolute())
    for place, tree in found:
        print(f'{place} is the build folder of another tree, {tree}: remove it, or give another by BUILD=',
              file=sys.stderr)
    sys.exit(bool(found))


if __name__ == '__main__':
    main()
