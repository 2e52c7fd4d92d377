# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""`weft bench`: that it measures what it says it does; how fast it is does not matter here."""
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from fabric import BUILD, Trouble, namespaces, user_prefix

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'bench'))
import devices  # noqa: E402
import measure  # noqa: E402
import wired  # noqa: E402

SVG = '{http://www.w3.org/2000/svg}'
OPERATIONS = {'put': {'verbs', 'ucx-weft', 'ucx-shm', 'ucx-tcp'},
              'am': {'ucx-weft', 'ucx-shm', 'ucx-tcp'},
              'tag': {'verbs', 'ucx-weft', 'ucx-shm', 'ucx-tcp', 'fi-shm'}}
two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='needs two cores')


def bench(fabric, *words, path=None):
    """Runs `weft bench`; path: PATH as the bench itself sees it, not the commands that start it."""
    setting = ['env', f'PATH={path}'] if path else []
    return subprocess.run([*user_prefix(), *setting, fabric.weft(), 'bench', *map(str, words)], env=fabric.env,
                          capture_output=True, text=True, check=False, timeout=500)


@two_cores
@pytest.mark.alone
@pytest.mark.skipif(not namespaces() or not all(map(shutil.which, ('iperf3', 'qperf', 'ib_write_bw'))),
                    reason='needs user namespaces, iperf3, qperf and perftest')
def test_wire(fabric):
    out = fabric.folder / 'out.json'
    done = bench(fabric, '--wire', '--quick', '--rounds', 1, '--json', out)
    assert done.returncode == 0 and not done.stderr, done
    rows = json.loads(out.read_text())['wire']
    assert [row['key'] for row in rows] == [f.key for f in wired.FIGURES]
    assert all(row['value'] > 0 and row['ok'] is None and row['name'] in done.stdout for row in rows)
    assert [row['key'] for row in rows if row['ratio'] is None] == ['rate']


@two_cores
@pytest.mark.skipif(not shutil.which('ucx_perftest') or not shutil.which('fi_pingpong'),
                    reason='needs ucx-utils and libfabric-bin')
def test_quick(fabric):
    out, picture = fabric.folder / 'out.json', fabric.folder / 'out.svg'
    done = bench(fabric, '--quick', '--json', out, '--svg', picture)
    assert done.returncode == 0 and not done.stderr, done
    result = json.loads(out.read_text())
    assert result['quick'] and result['line_ns']['median'] > 0
    assert [row['name'] for row in result['limits']] == [f.name for f in measure.FIGURES]
    assert all(row['value'] > 0 and row['ok'] is None for row in result['limits'])
    assert not any(peer['missing'] for peer in result['peers'])
    titles = {peer['name']: peer['title'] for peer in result['peers']}
    for operation, names in OPERATIONS.items():
        for unit in ('ns', 'MiB/s'):
            curves = [c for c in result['curves'] if (c['operation'], c['unit']) == (operation, unit)]
            assert {c['peer'] for c in curves} == names
            for curve in curves:
                assert [point['size'] for point in curve['points']] == result['sizes']
                assert all(point['value'] > 0 for point in curve['points'])
    assert len(result['bounds']) == 2 * len(OPERATIONS) * len(result['sizes'])
    assert all(bound['ratio'] > 0 and bound['ok'] is None for bound in result['bounds'])
    # A curve for each peer in each panel, and all of it in the tables.
    drawn = [curve.find(f'{SVG}title').text for curve in xml.parse(picture).getroot().iter(f'{SVG}g')
             if curve.find(f'{SVG}polyline') is not None]
    assert sorted(drawn) == sorted(titles[c['peer']] for c in result['curves'])
    assert all(title in done.stdout for title in titles.values())


@two_cores
def test_what_is_not_installed_is_named(fabric):
    """No figure stands where nothing was measured."""
    only = fabric.folder / 'bin'
    only.mkdir()
    for name in ('python3', 'ib_write_lat', 'ib_write_bw', 'ib_send_lat', 'ib_send_bw'):
        (only / name).symlink_to(f'/usr/bin/{name}')
    out = fabric.folder / 'out.json'
    words = ('--only', 'tag', '--sizes', '8', '--rounds', '1', '--json', out)
    done = bench(fabric, *words, path=only)
    assert done.returncode == 0 and not done.stderr, done
    assert 'UCX over Weft: not installed: apt install ucx-utils' in done.stdout
    assert 'libfabric, shared memory: not installed: apt install libfabric-bin' in done.stdout
    result = json.loads(out.read_text())
    assert {c['peer'] for c in result['curves'] if c['points']} == {'verbs'} and not result['bounds']
    (only / 'ib_send_lat').unlink()
    done = bench(fabric, *words, path=only)
    assert done.returncode == 1 and 'apt install perftest' in done.stderr and not done.stdout
    (only / 'python3').unlink()
    done = bench(fabric, *words, path=only)
    assert done.returncode == 1 and 'apt install python3' in done.stderr


def standin(fabric):
    """The folder of the stand-in's libcuda.so.1, where the user can load it."""
    folder = BUILD / 'tests/softgpu'
    if fabric.home == BUILD:
        return folder
    copy = fabric.home / 'softgpu'
    copy.mkdir(exist_ok=True)
    shutil.copy2(folder / 'libcuda.so.1', copy)
    return copy


def test_gpu(fabric):
    """On the stand-in, whose figures the table itself calls meaningless."""
    out, picture = fabric.folder / 'out.json', fabric.folder / 'out.svg'
    fabric.env['LD_LIBRARY_PATH'] = str(standin(fabric))
    done = bench(fabric, '--gpu', '--quick', '--json', out, '--svg', picture)
    assert done.returncode == 0 and not done.stderr, done
    result = json.loads(out.read_text())
    assert result['standin'] and result['gpus'] == 2 and devices.STANDIN in done.stdout
    cases = [(verb, one, two) for verb in ('write', 'read', 'send', 'atomic') for one in ('host', 'gpu')
             for two in ('host', 'gpu', 'other gpu')]
    assert list(devices.groups(result['rows'])) == cases
    for case, rows in devices.groups(result['rows']).items():
        assert [row['size'] for row in rows] == ([8] if case[0] == 'atomic' else devices.QUICK_SIZES)
        assert all(row[key] > 0 for row in rows for key in ('iterations', 't_typical', 't_avg', 'mib_s', 'mpps'))
        assert all(row['t_min'] <= row['t_typical'] <= row['t_99'] <= row['t_max'] for row in rows)
        # beside each figure its limit
        limit = None if case[0] == 'atomic' else 'memcpy' if case[1:] == ('host', 'host') else 'CUDA'
        assert all(row.get('limit') == limit and (row['ratio'] or 0) == (row['mib_s'] / row['limit_mib_s'] if limit else 0)
                   for row in rows)
        assert devices.title(rows[0]) in done.stdout
    assert sum(line.startswith('#bytes') for line in done.stdout.splitlines()) == len(cases)
    drawn = [curve.find(f'{SVG}title').text for curve in xml.parse(picture).getroot().iter(f'{SVG}g')
             if curve.find(f'{SVG}polyline') is not None]
    assert {'host, GPU', 'CUDA: host, GPU', 'GPU, other GPU', 'CUDA: GPU, other GPU'} <= set(drawn)


def test_no_gpu(fabric):
    """Where there is no driver that is said, and nothing is measured."""
    done = bench(fabric, '--gpu', '--quick')
    assert done.returncode == 1 and 'libcuda.so.1' in done.stderr and not done.stdout


def test_what_did_not_run_on_weft_is_no_figure(fabric):
    with pytest.raises(Trouble, match='carried 0 requests'), measure.carrying(fabric, 'nothing', 1, 8):
        pass


@pytest.mark.parametrize('words', [['--rounds', '0'], ['--rounds', 'x'], ['--sizes', '8,4X'], ['--sizes', '4'],
                                   ['--only', 'put,get'], ['--only', 'limits', '--svg', 'x'], ['--gpu', '--events'],
                                   ['--gpu', '--rounds', '2'], ['--fast'], ['x']])
def test_wrong_usage(fabric, words):
    done = bench(fabric, *words)
    assert done.returncode == 2 and 'weft bench --help' in done.stderr and not done.stdout
