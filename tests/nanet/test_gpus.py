# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`make check-stream-gpu` on the stand-in: each part runs, and has its rows in the table. What it measures there means nothing."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fabric import BUILD

TOOL = Path(__file__).resolve().parents[2] / 'tools/stream_gpus.py'
PAGE = 'before\n<!-- streams on a GPU -->\nof an earlier run\n<!-- end of streams on a GPU -->\nafter\n'
NUMBER = r'[\d.e+,-]+'
WANTS = {
    'tests': [r'11 \| test-nanet-gpu \| [1-9]\d* passed, 0 failed, 0 skipped',
              r'11 \| test-nanet-gpu, 2,000 datagrams, copy engine \| 1 passed',
              r'11 \| test-nanet-gpu, 2,000 datagrams, pull kernel \| 1 passed'],
    'judge': [r'17 \| decisions on the GPU and here: odd events \| alike',
              rf'17 \| decisions on the GPU and here: crawford \| 0 of 3,\d+ differ \| {NUMBER} ns an event',
              r'17 \| decisions on the GPU and here: almagest \| 0 of 3,\d+ differ'],
    'pull': [rf'12 \| pull kernel alone; .* \| {NUMBER} GB/s \|  \| ≥ 40 GB/s \|'],
    'flows': [rf'12 \| one flow into GPU memory, copy engine; segments of 44 \| {NUMBER} GB/s \| into host memory {NUMBER} \| ≥ 0.85 × \|',
              rf'12 \| one flow into GPU memory, pull kernel; segments of 44 \| {NUMBER} GB/s',
              rf'12 \| one flow into GPU memory, copy engine; one by one \| .* \| a bare loop {NUMBER} \| ≥ 0.95 × \|'],
    'one': [rf'12 \| one packet, .* copy engine; one at a time \| {NUMBER} µs, p99 {NUMBER} \| .* \| ≤ 7 µs, p99 ≤ 12 \|'],
    'latency': [rf"13 \| UDP → GPU, 10⁴ datagrams/s .*p99.9 {NUMBER} µs.* [1-9][\d,]* datagrams, .*\| gaps' p99.9 {NUMBER} \|",
                rf"13 \| UDP → GPU, 0.8 of the full rate .*p99.9 {NUMBER} µs.*\| gaps' p99.9 {NUMBER} \|"],
    'chain': [rf'19 \| the chain on the {where}, 4 sources, buffers of 128 events; one by one \| .* MEvents/s .* p99.9 [1-9]'
              for where in (r'CPU, \d+ threads fit each source', 'GPU, pull kernel', 'GPU, copy engine')],
}


@pytest.mark.parametrize('part', WANTS)
def test_table(tmp_path, part):
    page = tmp_path / 'page.md'
    page.write_text(PAGE)
    done = subprocess.run([TOOL, '--soft', '--build', BUILD, '--page', page, '--log', tmp_path / 'log', part], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False)
    text = page.read_text()
    assert text.startswith('before\n') and text.endswith('\nafter\n') and 'earlier' not in text
    assert done.returncode == 0, done.stdout + (tmp_path / 'log').read_text()[-2000:]
    for row in WANTS[part]:
        assert re.search(rf'^\| {row}', text, re.M), text


@pytest.mark.skipif(shutil.which('nvidia-smi') is not None, reason='there is a GPU')
def test_no_gpu(tmp_path):
    """Without one nothing is written."""
    page = tmp_path / 'page.md'
    page.write_text(PAGE)
    done = subprocess.run([TOOL, '--build', BUILD, '--page', page], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and 'nvidia-smi' in done.stderr and page.read_text() == PAGE
