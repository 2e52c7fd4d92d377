# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Nic, transports and engines as an object of a Linux module: they compile with the kernel's flags and link with
nothing that it does not have. The module is not loaded."""
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.aside
ROOT = Path(__file__).resolve().parents[2]
HEADERS = Path('/usr/src')
GLUE = '#include <linux/module.h>\nMODULE_LICENSE("Dual BSD/GPL");\nMODULE_DESCRIPTION("Weft");\n'
SOURCES = sorted([*ROOT.glob('src/nic/*.c'), *ROOT.glob('src/transport/**/*.c'), *ROOT.glob('src/wire/*/*.c')])


def headers(version):
    found = sorted(path for path in HEADERS.glob(f'linux-headers-{version}.*')
                   if (path / 'Makefile').exists() and not re.search(r'-(common|rt|cloud)', path.name))
    if platform.machine() != 'x86_64' or not shutil.which('make') or not found:
        pytest.skip(f"Debian's headers of Linux {version} are not installed")
    return found[-1]


def build(folder, version, sources):
    """What make says, and whether there is a module."""
    where = headers(version)
    compilers = subprocess.run(['gcc', '-print-file-name=include'], text=True, capture_output=True, check=True)
    flags = f'-isystem {compilers.stdout.strip()} -I{ROOT}/src -ffreestanding -fno-strict-aliasing -std=gnu17'
    objects = []
    for source in sources:
        name = '-'.join(source.with_suffix('').parts[-3:])
        (folder / f'{name}.c').write_text(f'#include "{source}"\n')
        objects.append(f'{name}.o')
    (folder / 'glue.c').write_text(GLUE)
    (folder / 'Kbuild').write_text(f'obj-m := weft.o\nweft-y := glue.o {" ".join(objects)}\n' +
                                   ''.join(f'CFLAGS_{name} := {flags} -Wno-declaration-after-statement\n'
                                           for name in objects))
    done = subprocess.run(['make', '-s', '-j2', '-C', where, f'M={folder}', 'modules'], text=True,
                          capture_output=True, check=False)
    return done.stdout + done.stderr, (folder / 'weft.ko').exists()


@pytest.mark.parametrize('version', ['6.1', '6.12'])
def test_module(tmp_path, version):
    said, made = build(tmp_path, version, SOURCES)
    assert made, said[-4000:]


@pytest.mark.parametrize('text,what', [
    ('#include <stdlib.h>\n', 'stdlib.h'),
    ('void *malloc(unsigned long);\nvoid *weft_f(void);\nvoid *weft_f(void)\n{\n\treturn malloc(1);\n}\n', 'malloc'),
    ('double weft_f(double);\ndouble weft_f(double x)\n{\n\treturn x * x;\n}\n', 'SSE'),
])
def test_what_a_kernel_lacks(tmp_path, text, what):
    (tmp_path / 'src').mkdir()
    (tmp_path / 'src/bad.c').write_text(text)
    said, made = build(tmp_path, '6.1', [tmp_path / 'src/bad.c'])
    assert not made and what in said
