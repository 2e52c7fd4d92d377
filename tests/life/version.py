#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""version.py FORMAT.H STEP OUTPUT: writes the format's header with another version."""
import re
import sys
from pathlib import Path

header, step, output = sys.argv[1:]
text, count = re.subn(r'(?m)^(#define WEFT_POOL_VERSION +)(\d+)u$',
                      lambda m: f'{m[1]}{int(m[2]) + int(step)}u', Path(header).read_text())
assert count == 1, f'{header} has no version of the format'
Path(output).write_text(text)
