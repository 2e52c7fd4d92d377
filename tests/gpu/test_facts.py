# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The stand-in for libcuda answers as hardware has answered: facts.tsv is what the same program printed on
a machine with a GPU. What differs stands in exceptions.tsv with its reason, five rows at most."""
import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get('WEFT_BUILD', HERE.parents[1] / 'build'))
EXCEPTIONS_MAX = 5

pytestmark = pytest.mark.quick


def table(text):
    rows = [line.split('\t') for line in text.splitlines() if line and not line.startswith('#')]
    return {row[0]: row[1:] for row in rows}


@pytest.fixture(scope='module', name='answers')
def fixture_answers():
    folder = BUILD / 'tests/gpu'
    env = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'tests/softgpu')}
    done = subprocess.run([folder / 'facts', folder / 'kernels.so'], env=env, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
    return table(done.stdout)


def test_as_hardware(answers):
    wanted = table((HERE / 'facts.tsv').read_text())
    for fact, (answer, _) in exceptions().items():
        wanted[fact] = [answer]
    assert len(answers) > 500
    assert {fact: (answers.get(fact), wanted.get(fact)) for fact in answers | wanted
            if answers.get(fact) != wanted.get(fact)} == {}


def exceptions():
    """{fact: (the stand-in's answer, the reason)}"""
    return table((HERE / 'exceptions.tsv').read_text())


def test_exceptions_are_few_and_have_reasons():
    hardware = table((HERE / 'facts.tsv').read_text())
    assert len(exceptions()) <= EXCEPTIONS_MAX
    for fact, row in exceptions().items():
        assert len(row) == 2 and row[1] and [row[0]] != hardware[fact], fact
