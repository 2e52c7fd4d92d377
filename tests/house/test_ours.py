# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""In a tree that was copied or moved with its build folder make does not build the old tree: it says so and stops."""
import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.aside


def make(tree, *words):
    return subprocess.run(['make', '-C', tree, *words], env={'PATH': '/usr/bin:/bin', 'WEFT_NO_APT': '1'}, text=True,
                          capture_output=True, check=False)


@pytest.fixture
def tree(tmp_path):
    """A tree with what make needs before it builds."""
    (tmp_path / 'tools').mkdir()
    for name in 'Makefile', 'tools/ours.py':
        shutil.copy2(ROOT / name, tmp_path / name)
    for name in ('tools/deps.sh',):
        (tmp_path / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
        (tmp_path / name).chmod(0o755)
    return tmp_path


def has_build(tree, folder, source):
    info = tree / folder / 'meson-info'
    info.mkdir(parents=True)
    (info / 'meson-info.json').write_text(json.dumps({'directories': {'source': str(source)}}))


@pytest.mark.parametrize('target', ['all', 'check', 'check-quick', 'asan', 'dist-bin', 'check-arm64'])
@pytest.mark.parametrize('folder', ['build', 'build-asan', 'build-dist/x86_64'])
def test_of_another_tree(tree, target, folder):
    has_build(tree, folder, '/tmp/elsewhere')
    done = make(tree, target)
    assert done.returncode and 'another tree, /tmp/elsewhere' in done.stderr
    assert 'ninja' not in done.stdout and 'meson' not in done.stdout


def test_another_folder(tree):
    has_build(tree, 'build', '/tmp/elsewhere')
    assert 'another tree' not in make(tree, 'all', 'BUILD=other').stderr


def test_its_own(tree):
    has_build(tree, 'build', tree)
    assert 'another tree' not in make(tree, 'all').stderr
