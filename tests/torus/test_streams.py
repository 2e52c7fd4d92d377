# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A stream of what another node of a live torus SENDs: the suite of links in tests/nanet/test_stream.c, and packets with header and footer."""
import subprocess

import pytest


@pytest.mark.counted
def test_streams(live):
    live.weft('up', '2x1x1')
    library = next(live.fabric.home.glob('**/libweft-ape.so.0')).parent
    done = subprocess.run([*live.fabric.prefix, live.fabric.program('test-nanet-stream'), 'torus', 'torus:0,0,0', 'torus:1,0,0'],
                          env={**live.env, 'LD_LIBRARY_PATH': str(library)}, capture_output=True, text=True, check=False, timeout=200,
                          cwd='/')
    assert done.returncode == 0 and 'ok 10 - torus_packets' in done.stdout, done.stdout + done.stderr
