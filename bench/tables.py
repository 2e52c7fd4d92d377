# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The results of bench.py as tables: a table is a list of rows of cells, the first of them the head."""
from measure import BANDWIDTH, LATENCY, show, show_size
from peers import OPERATIONS, OWN_UCX, WEFT_UCX

UNITS = {LATENCY: 'latency, one way', BANDWIDTH: 'bandwidth'}
VERDICTS = {True: 'held', False: 'MISSED', None: ''}


def plain(table):
    """Columns of words; all but the first and the last to the right."""
    widths = [max(map(len, column)) for column in zip(*table)]
    for number, row in enumerate(table):
        cells = [cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        yield '  '.join(cells).rstrip()
        if number == 0:
            yield '  '.join('-' * width for width in widths)


def markdown(table):
    head, *rows = table
    yield f'| {" | ".join(head)} |'
    yield f'|---|{"---:|" * (len(head) - 2)}---|'
    yield from (f'| {" | ".join(row)} |' for row in rows)


def limits(result):
    table = [('program', 'over Weft', "this machine's limit", 'ratio', 'bound', '')]
    for r in result['limits']:
        limit = f'{show(r["limit"], r["unit"])} ({r["limit_name"]})' if r['limit'] else ''
        table.append((r['name'], show(r['value'], r['unit']), limit,
                      f'{r["ratio"]:.2f}' if r['ratio'] else '', r['bound'], VERDICTS[r['ok']]))
    return table


def compared(result, operation, unit):
    """A table of sizes and peers; None if no peer was measured."""
    asked = {c['peer']: {p['size']: p['value'] for p in c['points']} for c in result['curves']
             if (c['operation'], c['unit']) == (operation, unit)}
    names = [p for p in result['peers'] if p['name'] in asked]
    bounds = {b['size']: b for b in result['bounds'] if (b['operation'], b['unit']) == (operation, unit)}
    if not names:
        return None
    table = [(UNITS[unit], *(p['title'] for p in names), 'ratio', 'bound', '')]
    for size in result['sizes']:
        b = bounds.get(size)
        table.append((show_size(size), *(show(asked[p['name']].get(size), unit) or p['missing'].split(':')[0]
                                         for p in names),
                      *((f'{b["ratio"]:.2f}', b['bound'], VERDICTS[b['ok']]) if b else ('', '', ''))))
    return table


def line(result):
    now = result['line_ns']
    text = f'A cache line takes {now["median"]:.1f} ns one way between the two cores'
    if now['moved']:
        text += (f', at times {min(now["values"]):.1f}, at times {max(now["values"]):.1f}: THE MACHINE MOVED '
                 'during this run.\nRatios are of neighbours in time; compare no absolute figures')
    if now['unsteady']:
        text += (f'.\nComparisons that never found it the same before and after: {now["unsteady"]}: '
                 'do not trust their ratios')
    return text + '.'


def where(result):
    m = result['machine']
    return (f'{m["processor"]}, {m["cores"]} cores, Linux {m["linux"]}; server on core {m["server_core"]}, '
            f'client on core {m["client_core"]}; medians of {result["rounds"]} interleaved '
            f'round{"s" if result["rounds"] > 1 else ""}.')


def everything(result):
    yield from (where(result), line(result))
    if result['quick']:
        yield 'A quick run holds nothing to its bound.'
    if result['limits']:
        yield from ('', "Debian's perftest over Weft, beside the limits of this machine", '')
        yield from plain(limits(result))
    for operation, name in OPERATIONS.items():
        for unit in UNITS:
            table = compared(result, operation, unit)
            if table:
                yield from ('', f'{name} (ratio: time of {WEFT_UCX.title} / {OWN_UCX.title})', '')
                yield from plain(table)
    missing = [p for p in result['peers'] if p['missing']]
    if missing:
        yield ''
        yield from (f'{p["title"]}: {p["missing"]}' for p in missing)
