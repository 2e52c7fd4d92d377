# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import pytest

from fabric import Fabric


@pytest.fixture
def fabric():
    with Fabric() as made:
        yield made
