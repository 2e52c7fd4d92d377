# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import os

import pytest

from fabric import Fabric

# A queue pair whose destination no member has starts no card; only the tests of cards want them.
os.environ.setdefault('WEFT_NIC', 'off')


@pytest.fixture
def fabric():
    with Fabric() as made:
        yield made
