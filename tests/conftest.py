# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import os

import pytest

import run
from fabric import Fabric

# A queue pair whose destination no member has starts no card; only the tests of cards want them.
os.environ.setdefault('WEFT_NIC', 'off')


@pytest.fixture
def fabric():
    with Fabric() as made:
        yield made


def pytest_collection_modifyitems(config, items):
    """Where one part's tests are run, the others are left out."""
    others = [item for item in items if not run.is_chosen(run.part_of(item.nodeid.split('.py::')[0].replace('/', '.')))]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
