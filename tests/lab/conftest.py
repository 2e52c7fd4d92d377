# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
import pytest

from lab.guests import Guests, missing


@pytest.fixture(scope='session')
def lab():
    """There can be guests."""
    why = missing()
    if why:
        pytest.skip(why)


@pytest.fixture(scope='module')
def pcie(lab):
    """Two guests with a kernel each that share the window of a PCIe device, in which a pool was made."""
    with Guests('pcie', emulated=True) as machines:
        yield machines


@pytest.fixture(scope='module')
def cxl(lab):
    """Two guests with a kernel each that share the memory of a CXL device, in which a pool without atomics was made."""
    why = missing('cxl')
    if why:
        pytest.skip(why)
    with Guests('cxl') as machines:
        yield machines


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """What fails shows what the guests' consoles had."""
    report = (yield).get_result()
    machines = item.funcargs.get('pcie') or item.funcargs.get('cxl')
    if report.failed and machines:
        for guest in machines.guests:
            report.sections.append((f'console of {guest.name}', guest.console_text()))
