# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A connection is set up in a few times what TCP takes. `make bench` holds it to its bound of 3; here it
fails only at thrice that in the best of five runs, as other work on a shared machine makes runs slower."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'bench'))
import connections  # noqa: E402  (what bench/ measures)

pytestmark = pytest.mark.alone


def test_set_up_is_near_tcp():
    assert min(map(connections.ratio, connections.rounds(5))) <= 3 * connections.AT_MOST
