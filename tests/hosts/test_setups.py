# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The tests of what two processes do with each other (meson's suite `two`), with those on two hosts of a pool. A case that fails or
is skipped there has a row in differences.tsv with its reason; one that does as on one host has none."""
import csv
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from fabric import BUILD

TABLE = Path(__file__).with_name('differences.tsv')
CASE = re.compile(r'(not ok|ok) \d+ - (\w+)(.*# SKIP)?')
SECONDS = 1700


def outcomes(setup):
    """{(test, case): 'works', 'fails' or 'skipped'}. The log has a name of its own: tools/works.py takes what fails in a testlog for broken."""
    log = BUILD / 'meson-logs' / f'setup-{setup}-{setup}.json'
    log.unlink(missing_ok=True)
    done = subprocess.run(['meson', 'test', '-C', BUILD, '--no-rebuild', '--setup', setup, '--suite', 'two', '--logbase', f'setup-{setup}',
                           '--timeout-multiplier', '10'],
                          capture_output=True, text=True, timeout=SECONDS, check=False, env={**os.environ, 'CMOCKA_MESSAGE_OUTPUT': 'TAP'})
    found = {}
    for test in map(json.loads, log.read_text().splitlines()):
        name = test['name'].rsplit(' / ', 1)[-1]
        cases = CASE.findall(test.get('stdout') or '')
        for verdict, case, skipped in cases:
            found[name, case] = 'skipped' if skipped else 'fails' if verdict == 'not ok' else 'works'
        if not cases or (test['result'] not in ('OK', 'SKIP') and 'fails' not in [found[name, case] for _, case, _ in cases]):
            found[name, ''] = test['result']
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize('setup', ['hosts', 'hosts_plain'])
def test_two_hosts(setup):
    with open(TABLE, encoding='utf-8') as file:
        rows = [row for row in csv.DictReader(file, delimiter='\t') if setup in row['setups'].split()]
    assert all(row['reason'] for row in rows)
    wanted = {(row['test'], row['case']): row['outcome'] for row in rows}
    found = outcomes(setup)
    assert {name: outcome for name, outcome in found.items() if outcome != 'works'} == wanted
