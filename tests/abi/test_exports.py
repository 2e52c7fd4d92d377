# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The built libraries export exactly the names, versions and kinds that rdma-core's releases do."""
import csv
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('WEFT_BUILD', ROOT / 'build'))
RELEASES = ('bookworm', 'trixie', 'head')
LIBRARIES = ('libibverbs', 'librdmacm')
OTHER_NODES = ('25', '33', '57', '59', '64')
# No program needs these: only rdma-core's own librdmacm does, which Weft replaces.
STUBS_FOR_NOW = {'ibv_copy_ah_attr_from_kern', 'ibv_copy_path_rec_from_kern',
                 'ibv_copy_path_rec_to_kern', 'ibv_copy_qp_attr_from_kern'}
# The stub's answer is the right one: 0, no order is guaranteed.
STUBS_THAT_ANSWER = {'ibv_query_qp_data_in_order'}

pytestmark = pytest.mark.quick


def read(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def exported(library):
    """Each exported symbol as (name, version, whether that is the default version, kind, binding)."""
    found = []
    for line in read('readelf', '-W', '--dyn-syms', BUILD / f'{library}.so.1').splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(':').isdigit() or fields[6] in ('UND', 'ABS'):
            continue
        name, at, version = re.fullmatch(r'(.*?)(@@?)(.*)', fields[7]).groups()
        found.append((name, version, at == '@@', fields[3], fields[4]))
    return found


def listed(library):
    """(name, version) -> (default or compat, kind), in any release of rdma-core."""
    found = {}
    for release in RELEASES:
        with open(ROOT / 'abi' / f'{release}-{library}.exports.tsv', encoding='ascii') as file:
            for name, version, binding, kind in csv.reader(file, delimiter='\t'):
                found[name, version] = binding, kind
    return found


def others():
    """The (name, version) pairs of those private nodes that have no list of their own."""
    names = {name for name, version in listed('libibverbs') if '_PRIVATE_' in version}
    for number in OTHER_NODES:
        for name in names:
            if not name.startswith('verbs_register_driver_'):
                yield name, f'IBVERBS_PRIVATE_{number}'
        yield f'verbs_register_driver_{number}', f'IBVERBS_PRIVATE_{number}'


@pytest.mark.parametrize('library', LIBRARIES)
def test_names_and_versions(library):
    wanted = set(listed(library)) | (set(others()) if library == 'libibverbs' else set())
    got = [(name, version) for name, version, *_ in exported(library)]
    assert len(got) == len(set(got)) > 70
    assert set(got) == wanted


@pytest.mark.parametrize('library', LIBRARIES)
def test_kinds_and_defaults(library):
    table = listed(library)
    kinds = {name: kind for (name, _), (_, kind) in table.items()}
    for name, version, default, kind, _ in exported(library):
        assert kind == kinds.get(name, 'FUNC'), name
        if '_PRIVATE_' not in version:
            assert default == (table[name, version][0] == 'default'), (name, version)


def test_one_default_each():
    defaults = [name for name, _, default, *_ in exported('libibverbs') if default]
    assert len(defaults) == len(set(defaults))


@pytest.mark.parametrize('library', LIBRARIES)
def test_dynamic_section(library):
    shown = read('readelf', '-W', '-d', BUILD / f'{library}.so.1')
    assert f'soname: [{library}.so.1]' in shown
    assert re.search(r'FLAGS_1.*\bNOW\b.*\bNODELETE\b', shown)
    assert (BUILD / f'{library}.so').readlink() == Path(f'{library}.so.1')


def test_what_programs_need_is_no_stub():
    with open(ROOT / 'abi/min-symbols.tsv', encoding='ascii') as file:
        needed = {(row['symbol'], row['version']) for row in csv.DictReader(file, delimiter='\t')
                  if row['class'] in ('query', 'string/convert/noop', 'private-real')}
    assert len(needed) > 25
    stubs = {name for name, version, _, _, binding in exported('libibverbs')
             if binding == 'WEAK' and (name, version) in needed}
    assert stubs == STUBS_FOR_NOW | STUBS_THAT_ANSWER
