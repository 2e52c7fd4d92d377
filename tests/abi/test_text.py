# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Names and rates are those of rdma-core: both libraries are asked for every value."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get('WEFT_BUILD', Path(__file__).resolve().parents[2] / 'build'))
ASK = r'''
import ctypes, json, sys
verbs, cm = (ctypes.CDLL(path) for path in sys.argv[1:3])
def text(library, name, values):
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    return [function(ctypes.c_int(value)).decode() for value in values]
print(json.dumps({
    'node': text(verbs, 'ibv_node_type_str', range(-2, 12)),
    'port': text(verbs, 'ibv_port_state_str', range(-1, 9)),
    'event': text(verbs, 'ibv_event_type_str', range(-1, 25)),
    'status': text(verbs, 'ibv_wc_status_str', range(-1, 30)),
    'cm': text(cm, 'rdma_event_str', range(-1, 20)),
    'mult': [verbs.ibv_rate_to_mult(rate) for rate in range(-1, 30)],
    'mbps': [verbs.ibv_rate_to_mbps(rate) for rate in range(-1, 30)],
    'of mult': [verbs.mult_to_ibv_rate(mult) for mult in range(-1, 500)],
    'of mbps': [verbs.mbps_to_ibv_rate(verbs.ibv_rate_to_mbps(rate)) for rate in range(-1, 30)],
    'of odd mbps': verbs.mbps_to_ibv_rate(12345),
}))
'''

pytestmark = pytest.mark.quick


def ask(folder):
    done = subprocess.run(['/usr/bin/python3', '-c', ASK, folder / 'libibverbs.so.1',
                           folder / 'librdmacm.so.1'], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def system_folder():
    env = {**os.environ, 'PATH': f'/usr/sbin:/sbin:{os.environ["PATH"]}'}
    listed = subprocess.run(['ldconfig', '-p'], check=True, capture_output=True, text=True, env=env)
    return Path(re.search(r'librdmacm\.so\.1 .*=> (\S+)', listed.stdout)[1]).parent


def test_same_words_and_rates():
    ours, theirs = ask(BUILD), ask(system_folder())
    # events that are newer than the system's library
    ours['cm'] = [old if old == 'UNKNOWN EVENT' else new
                  for old, new in zip(theirs['cm'], ours['cm'], strict=True)]
    for what, answer in theirs.items():
        assert ours[what] == answer, what
