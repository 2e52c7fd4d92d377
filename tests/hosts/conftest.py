# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from hosts import Hosts  # noqa: E402


@pytest.fixture
def two():
    with Hosts() as made:
        yield made


@pytest.fixture(params=['atomics', 'plain'])
def either(request):
    """A pool that says that atomic instructions hold between its hosts, and one that does not."""
    with Hosts(atomics=request.param == 'atomics') as made:
        yield made
