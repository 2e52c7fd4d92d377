# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from live import Live  # noqa: E402


@pytest.fixture
def live():
    made = Live()
    try:
        yield made
    finally:
        made.end()
