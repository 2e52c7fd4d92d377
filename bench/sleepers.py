# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs that sleep: requests and answers between clients and a server with one thread and epoll (events.c), over
verbs with completion channels and over TCP loopback, in turn, each side on a core of its own; and ibv_rc_pingpong -e
beside qperf's tcp_lat. Sizes are those of request and answer."""
import json
import re
import shutil
import statistics
from dataclasses import dataclass

import measure
from measure import show_size
from pairs import Trouble, free_port, listening, wait_for

VERBS, HELPER, TCP, GATHERED = 'verbs', 'helper', 'tcp', 'gathered'
TITLES = {VERBS: 'over Weft', HELPER: 'over Weft, its helper', TCP: 'TCP', GATHERED: 'TCP, gathered'}
SECONDS, QUICK_SECONDS = 0.4, 0.15
PINGPONG_AT_MOST = 1.2
PINGPONGS = 4000


@dataclass(frozen=True)
class Setting:
    """One measurement, made over each of its ways. bounds: {way of TCP: how many times its requests a second there must
    be at least}; with one request under way, at_most bounds the time one way instead."""
    clients: int
    processes: int
    in_flight: int
    size: int
    bounds: tuple = ()
    at_most: float = None
    way: str = VERBS
    epoll: bool = False

    @property
    def name(self):
        clients = f'{self.clients} client{"s" if self.clients > 1 else ""}'
        if self.processes > 1:
            clients += f' in {self.processes} processes'
        if self.epoll:
            clients += ' with epoll'
        if self.in_flight > 1:
            clients += f', {self.in_flight} in flight'
        return f'{clients}, {show_size(self.size)}'


SETTINGS = [Setting(1, 1, 1, 64, at_most=1.1),
            Setting(8, 1, 1, 64, ((TCP, 1.5),)),
            Setting(8, 8, 1, 64, ((TCP, 1.5),)),
            Setting(8, 8, 1, 64, ((TCP, None),), epoll=True),
            Setting(50, 1, 1, 64, ((TCP, 1.5),)),
            Setting(50, 5, 1, 64, ((TCP, 1.5),)),
            Setting(8, 1, 16, 64, ((TCP, 2), (GATHERED, 1))),
            Setting(50, 1, 16, 64, ((TCP, 2), (GATHERED, 0.7))),
            Setting(8, 1, 1, 4 << 10, ((TCP, 2),)),
            Setting(1, 1, 1, 1 << 20, ((TCP, 2),)),
            Setting(8, 1, 1, 64, ((TCP, None),), way=HELPER),
            Setting(50, 1, 1, 64, ((TCP, None),), way=HELPER)]


def serve(fabric, way, setting, seconds, requests=0):
    """One run: {requests, per_s, one_way_us, server}."""
    cores = measure.cores()
    done = fabric.run(measure.HERE / 'events', way, *cores, setting.clients, setting.processes,
                      setting.in_flight, setting.size, seconds, requests, *['epoll'] * setting.epoll)
    return json.loads(done.stdout)


def pingpong(fabric):
    """µs one way, asleep."""
    _, client = fabric.pair('ibv_rc_pingpong', '-e', '-s', 64, '-n', PINGPONGS, '-g', 3)
    return float(re.search(r'= ([\d.]+) usec/iter', client.stdout)[1]) / 2


def tcp_lat(fabric):
    """µs one way, as qperf says it."""
    port = free_port()
    server = fabric.start('qperf', '-lp', port, core=0, on_weft=False)
    wait_for(lambda: listening(port), 'qperf listens')
    try:
        client = fabric.start('qperf', '-lp', port, '127.0.0.1', '-t', 1, '-m', 64, 'tcp_lat', core=1, on_weft=False)
        out = client.done().stdout
    finally:
        server.kill()
    found = re.search(r'latency\s*=\s*([\d.]+) (us|ms)', out)
    if not found:
        raise Trouble(f'qperf: no latency in\n{out}')
    return float(found[1]) * (1000 if found[2] == 'ms' else 1)


def round_of(fabric, quick, progress):
    """{(setting, way): result} of all, and the two latencies."""
    taken = {}
    for setting in SETTINGS:
        for way in (setting.way, *dict(setting.bounds or ((TCP, None),))):
            progress(f'{setting.name}: {TITLES[way]}')
            taken[setting, way] = serve(fabric, way, setting, QUICK_SECONDS if quick else SECONDS)
    if shutil.which('qperf') and shutil.which('ibv_rc_pingpong'):
        progress('ibv_rc_pingpong -e, qperf tcp_lat')
        taken['pingpong'] = pingpong(fabric), tcp_lat(fabric)
    return taken


def rows(rounds, quick):
    for setting in SETTINGS:
        for way, least in setting.bounds or ((TCP, None),):
            ours, theirs = ([r[setting, w] for r in rounds] for w in (setting.way, way))
            if setting.at_most:
                unit, key, ratios = 'µs', 'one_way_us', [a['one_way_us'] / b['one_way_us'] for a, b in zip(ours, theirs)]
            else:
                unit, key, ratios = '/s', 'per_s', [a['per_s'] / b['per_s'] for a, b in zip(ours, theirs)]
            yield judged(setting.name, TITLES[setting.way], TITLES[way], unit, [r[key] for r in ours],
                         [r[key] for r in theirs], ratios, setting.at_most, least, quick)
    pairs = [r['pingpong'] for r in rounds if 'pingpong' in r]
    if pairs:
        yield judged('ibv_rc_pingpong -e, 64 B', TITLES[VERBS], "qperf's tcp_lat", 'µs', *map(list, zip(*pairs)),
                     [a / b for a, b in pairs], PINGPONG_AT_MOST, None, quick)


def judged(name, ours, theirs, unit, values, limits, ratios, at_most, at_least, quick):
    ratio = statistics.median(ratios)
    bound = f'≤ {at_most:g} ×' if at_most else f'≥ {at_least:g} ×' if at_least else ''
    ok = ratio <= at_most if at_most else ratio >= at_least if at_least else None
    return {'name': name, 'ours': ours, 'theirs': theirs, 'unit': unit, 'value': statistics.median(values),
            'limit': statistics.median(limits), 'ratio': ratio, 'bound': bound, 'ok': None if quick else ok,
            'values': values, 'limits': limits, 'ratios': ratios}


def show(value, unit):
    return f'{value:.1f} µs' if unit == 'µs' else f'{value:,.0f} /s'


def table(results):
    yield ('clients, each with as many requests in flight', 'by', 'requests or time one way', 'beside', '', 'ratio',
           'bound', '')
    for r in results:
        yield (r['name'], r['ours'], show(r['value'], r['unit']), r['theirs'], show(r['limit'], r['unit']),
               f'{r["ratio"]:.2f}', r['bound'], {True: 'held', False: 'MISSED', None: ''}[r['ok']])


def take(fabric, count, quick, progress):
    """The rows of so many rounds."""
    rounds = []
    for number in range(count):
        rounds.append(round_of(fabric, quick, lambda text, n=number: progress(f'round {n + 1} of {count}: {text}')))
    progress('')
    return list(rows(rounds, quick))
