#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Installs for `make install`, and removes for `make uninstall`: all that was installed, and the folders that
had to be made for it, stand in a list in PREFIX/share/weft, so that exactly these are removed."""
import argparse
import os
import subprocess
import sys
from pathlib import Path


def absolute(path):
    return Path(os.path.abspath(path)) if path else None


def list_of(place):
    return place.prefix / 'share/weft/installed'


def there(place, path):
    """Where a path of the list is: in the staging folder, if there is one."""
    return place.destdir / str(path).lstrip('/') if place.destdir else Path(path)


def logged(place):
    """What meson has just put there, or the folders that it has made, as paths of the list."""
    root = place.destdir or Path('/')
    for line in (place.build / 'meson-logs/install-log.txt').read_text().splitlines():
        path = Path(line)
        if path.is_absolute() and path.is_relative_to(root) and path != root:
            yield Path('/') / path.relative_to(root)


def install(place):
    destdir = ['--destdir', place.destdir] if place.destdir else []
    done = subprocess.run(['meson', 'install', '-C', place.build, '--no-rebuild', *destdir],
                          check=False)
    if done.returncode:
        return done.returncode
    listed = there(place, list_of(place))
    made = [p for p in list_of(place).parents if not there(place, p).exists()]
    listed.parent.mkdir(parents=True, exist_ok=True)
    before = listed.read_text().splitlines() if listed.exists() else []
    paths = {list_of(place), *made, *map(Path, before), *logged(place)}
    # made by a script, of which meson's log says nothing
    for ours in [p.parent for p in paths if p.name == 'libweft-shim.so']:
        paths |= {ours / p.relative_to(there(place, ours)) for p in there(place, ours).rglob('*')}
    listed.write_text(''.join(f'{path}\n' for path in sorted(paths)))
    return 0


def uninstall(place):
    listed = there(place, list_of(place))
    if not listed.exists():
        print(f'make uninstall: there is no {listed}: nothing to remove', file=sys.stderr)
        return 1
    # what is in a folder before the folder
    for path in sorted(map(Path, listed.read_text().splitlines()), reverse=True):
        at = there(place, path)
        if at.is_dir() and not at.is_symlink():
            if not any(at.iterdir()):
                at.rmdir()
        else:
            at.unlink(missing_ok=True)
    print(f'removed from {there(place, place.prefix)}')
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', choices=['install', 'uninstall'])
    parser.add_argument('--build', type=absolute, default='build')
    parser.add_argument('--prefix', type=Path, required=True)
    parser.add_argument('--destdir', type=absolute, default='')
    place = parser.parse_args()
    return install(place) if place.what == 'install' else uninstall(place)


if __name__ == '__main__':
    sys.exit(main())
