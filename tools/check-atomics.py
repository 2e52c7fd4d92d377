#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Memory that several hosts share may have no atomic instructions. So each exchange, fetch and compare of src says by
what it needs none there: its gate, in the table below. Prints each that has none, and each row that nothing needs, as file:line:
what; likewise a plain assignment to an atomic field of the pool, which is an exchange (found by clang; weft_store is none). Exits 1 if
any; 77 if clang is missing. --list prints the table with its lines."""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

GATES = {
    'private': 'the word is not of the pool, but of one process, or of a card\'s or stream\'s own memory',
    'near': 'all that write the word are of one host: its kernel is theirs, and the memory of its home, or its cache, is coherent',
    'owner': 'the owner writes the word, and no other host',
    'tried': 'whether it holds is what is asked',
    'atomics': 'another host may write the word: only where the pool has atomic instructions, else its owner is asked',
}

# {(file, function, word): (gate, why it is that; of atomics also the function that asks the owner of another host instead)}
TABLE = {
    ('ape/fd.c', 'weft_ape_stop_listening', 'a->ends'): ('private', 'of the library in its program'),
    ('card/loop.c', 'wake', 'called'): ('private', 'of the card\'s process'),
    ('card/loop.c', 'sleep_until', 'called'): ('private', 'of the card\'s process'),
    ('card/loop.c', 'listen_to_bell', 'weft_process.pool->self->card.bell.told'): ('near', 'a card is of its members\' host'),
    ('card/torus/cables.c', 'weft_torus_cables_take', 'heard'): ('private', 'of the card\'s process'),
    ('card/torus/guests.c', 'weft_torus_guests_tell', 'slot->told'): ('near', 'a torus is of one host'),
    ('card/torus/run.c', 'lie_down', 'c->shared->card.sleeps'): ('near', 'a torus is of one host'),
    ('card/torus/run.c', 'end_it', 'is_over'): ('private', 'of the card\'s process'),
    ('card/torus/run.c', 'end_it', 'ending->door.asleep'): ('private', 'of links, whose memory is theirs'),
    ('card/torus/run.c', 'open_own_door', 'c->door->ready'): ('private', 'of links, whose memory is theirs'),
    ('card/torus/run.c', 'open_own_door', 'c->door->pid'): ('private', 'of links, whose memory is theirs'),
    ('card/torus/verbs.c', 'weft_torus_verbs_listen', 'c->bell'): ('near', 'a torus is of one host'),
    ('card/torus/verbs.c', 'weft_torus_verbs_serve', 'rung'): ('private', 'of the card\'s process'),
    ('card/torus/world.c', 'write_event', 'slot->lost'): ('near', 'a torus is of one host'),
    ('card/weftd.c', 'stop_soon', 'stop'): ('private', 'of the card\'s process'),
    ('cli/sides.c', 'try_additions', 'sum'): ('tried', 'of weft pool test'),
    ('cuda/device.h', 'weft_add', 'word'): ('private', 'of a GPU'),
    ('link/door.c', 'weft_door_knock', 'door->asleep'): ('private', 'of links, whose memory is theirs'),
    ('link/door.c', 'weft_door_knock', 'door->knocks'): ('private', 'of links, whose memory is theirs'),
    ('link/ring_writer.c', 'publish_head', 'w->ring->asleep'): ('private', 'of links, whose memory is theirs'),
    ('migrate/park.c', 'take_thread', 'summon->noted'): ('private', 'of the process whose threads it parks'),
    ('migrate/park.c', 'take_thread', 'summon->tid'): ('private', 'of the process whose threads it parks'),
    ('migrate/park.c', 'drop_ended', 'weft_summons[i].tid'): ('private', 'of the process whose threads it parks'),
    ('migrate/park.c', 'weft_park_end', 'weft_summon_round'): ('private', 'of the process whose threads it parks'),
    ('migrate/segv.c', 'open_window', 'turns'): ('private', 'of the process that migrates'),
    ('migrate/segv.c', 'close_window', 'turns'): ('private', 'of the process that migrates'),
    ('nic/arm.c', 'change', 'alarm->word'): ('atomics', 'producers of all hosts claim it', 'weft_pool_alarm'),
    ('nic/cq.c', 'weft_cq_lose', 'qp->lost'): ('private', 'of the nic'),
    ('nic/datagram.c', 'weft_datagram_fault', 'srq->at->fault'): ('atomics', 'takers store it', 'weft_take_blame'),
    ('nic/lock.c', 'take_common', 'lock->held'): ('private', 'of the nic'),
    ('nic/mw.c', 'weft_mw_end', 'word'): ('atomics', 'a SEND with invalidate ends a window of the peer\'s', 'weft_mw_end'),
    ('nic/place.h', 'weft_place_atomic', 'word'): ('atomics', 'verbs\' atomics, of all hosts', 'connect_member'),
    ('nic/qp.c', 'disconnect', 'qp->nic->nconnected'): ('private', 'of the nic'),
    ('nic/qp.c', 'connect_by_transport', 'qp->nic->nconnected'): ('private', 'of the nic'),
    ('nic/responder.c', 'weft_responder_leave', 'to->slot->rq_left'): ('atomics', 'peers one after the other, of which one may stand still', 'weft_responder_leave'),
    ('nic/send.c', 'list_waiting', 'nic->nwaiting'): ('private', 'of the nic'),
    ('nic/send.c', 'weft_sq_stop_waiting', 'nic->nwaiting'): ('private', 'of the nic'),
    ('nic/send.c', 'take_waiting', 'nic->nwaiting'): ('private', 'of the nic'),
    ('nic/send.c', 'see_to_tries', 'qp->nic->ntrying'): ('private', 'of the nic'),
    ('nic/srq.c', 'oldest_done', 'q->at->late'): ('atomics', 'takers store it', 'weft_take_complete'),
    ('nic/take.c', 'pass_positions', 'take->at->taken'): ('atomics', 'all takers', 'pass_positions'),
    ('nic/take.c', 'weft_take_claim', 'at'): ('atomics', 'all takers', 'weft_take_claim'),
    ('nic/take.c', 'weft_take_let_go', 'claim_at(take, take->position)'): ('atomics', 'all takers', 'weft_take_let_go'),
    ('nic/take.c', 'complete_here', 'slot->state'): ('atomics', 'the taker, and the owner that has given up on it', 'weft_take_complete'),
    ('nic/take.c', 'complete_here', 'claim_at(take, take->position)'): ('atomics', 'all takers', 'weft_take_complete'),
    ('pool/alarm.c', 'weft_pool_claim', 'alarm->word'): ('atomics', 'producers of all hosts claim it', 'weft_pool_alarm'),
    ('pool/ape.c', 'occupy', 'ape->card.claims'): ('near', 'a torus is of one host'),
    ('pool/host.c', 'weft_host_arrive', 'a->hosts->nap_ns'): ('private', 'of the attachment'),
    ('pool/host.c', 'give_up_number', 'a->hosts->displaced'): ('private', 'of the attachment'),
    ('pool/host.c', 'weft_host_tick', 'a->hosts->owes'): ('private', 'of the attachment'),
    ('pool/host.c', 'weft_pool_use', 'uses'): ('near', 'threads of the host whose page it is in'),
    ('pool/life.c', 'end_visits', 'm->ask[i].seq'): ('near', 'the asker as it leaves, or a recoverer of its host'),
    ('pool/life.c', 'weft_pool_watch', 'a->watched'): ('private', 'of the attachment'),
    ('pool/quarantine.c', 'weft_pool_retire', 'pool->nretired'): ('private', 'of the attachment'),
    ('pool/quarantine.c', 'weft_pool_sweep', 'pool->nretired'): ('private', 'of the attachment'),
    ('pool/silence.c', 'weft_silence_look', 'hosts->silent'): ('private', 'of the attachment'),
    ('pool/silence.c', 'weft_pool_has_lost_host', 'hosts->lost'): ('private', 'of the attachment'),
    ('pool/visit.c', 'weft_pool_visit', 'busy'): ('near', 'the process\'s own line, in its home'),
    ('pool/wake.c', 'shut', 'nopen'): ('private', 'of the process'),
    ('pool/wake.c', 'open_door', 'nopen'): ('private', 'of the process'),
    ('pool/wake.c', 'wake_by_word', 'bell->told'): ('near', 'that of a card of this host'),
    ('pool/wake.c', 'write_bell', 'bell->told'): ('near', 'a producer elsewhere cannot have the pipe (fetch_pipe)'),
    ('process/answer.c', 'apply_to_memory', 'at'): ('near', 'the program\'s own memory, which other hosts ask this helper for'),
    ('process/answer.c', 'change_word', 'word'): ('near', 'the owner\'s helper, which those of other hosts ask'),
    ('process/answer.c', 'change_word', 'half'): ('near', 'the owner\'s helper, which those of other hosts ask'),
    ('process/helper.c', 'run', 'ticking'): ('private', 'of the process'),
    ('process/helper.c', 'weft_helper_start', 'stopping'): ('private', 'of the process'),
    ('process/late.c', 'try_take', 'late->state'): ('private', 'of the process'),
    ('process/late.c', 'count_asks', 'late'): ('owner', 'the asker\'s threads'),
    ('process/object.c', 'weft_object_end_domain', 'id'): ('near', 'domains are shared by descriptors, so within a kernel'),
    ('process/object.c', 'weft_object_keep', 'id'): ('near', 'domains are shared by descriptors, so within a kernel'),
    ('stream/receiver.c', 'weft_stream_receiver_run', 's->shared->flush'): ('private', 'of streams, whose memory is theirs'),
    ('stream/stream.c', 'weft_stream_flush', 's->shared->flush'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'signal_armed', 't->shared->armed'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'weft_tell_take', 't->shared->head'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'weft_tell_give_back', 't->held[buffer]'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'weft_tell_give_back', 't->given[buffer / 64]'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'weft_tell_give_back', 't->some[buffer / 4096]'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'weft_tell_returned', 't->some[i]'): ('private', 'of streams, whose memory is theirs'),
    ('stream/tell.c', 'weft_tell_returned', 't->given[word]'): ('private', 'of streams, whose memory is theirs'),
    ('transport/handed/handed.c', 'connect_card', 'qp->nic->nhanded'): ('private', 'of the nic'),
    ('transport/handed/handed.c', 'take_queue_back', 'qp->nic->nhanded'): ('private', 'of the nic'),
    ('verbs/channel.c', 'tell_pipe', 'ch->bell->told'): ('near', 'a producer elsewhere cannot have the pipe (fetch_pipe)'),
    ('verbs/channel.c', 'write_for', 'ch->bell->told'): ('near', 'a producer elsewhere cannot have the pipe (fetch_pipe)'),
    ('verbs/channel.c', 'gather_claimed', 'ch->bell->told'): ('near', 'a producer elsewhere cannot have the pipe (fetch_pipe)'),
    ('verbs/channel.c', 'ibv_ack_cq_events', 'completed'): ('private', 'of the process'),
    ('verbs/channel.c', 'weft_channel_leave', 'events_acknowledged(&cq->cq)'): ('private', 'of the process'),
    ('verbs/context.c', 'claim', 'ctx->state'): ('private', 'of the process'),
    ('verbs/context.c', 'claim', 'contexts'): ('private', 'of the process'),
    ('verbs/context.c', 'ibv_close_device', 'ctx->state'): ('private', 'of the process'),
    ('verbs/pd.c', 'dealloc', 'pd->td->users'): ('private', 'of the process'),
    ('verbs/pd.c', 'weft_verbs_pd_leave', 'weft_pd(pd)->users'): ('owner', 'threads of the process that has imported the domain'),
    ('verbs/pd.c', 'weft_verbs_pd_use', 'pd->users'): ('owner', 'threads of the process that has imported the domain'),
}

# Fields of one process alone that have the name of one of the pool: (file, field).
NAMESAKES = {
    ('nic/qp.c', 'state'), ('nic/send.c', 'state'), ('process/process.c', 'generation'), ('verbs/channel.c', 'late'), ('verbs/dm.c', 'users'),
    ('verbs/domain.c', 'users'), ('verbs/mcast.c', 'groups'), ('verbs/qp.c', 'users'), ('verbs/receiver.c', 'users'),
    ('verbs/srq.c', 'users'),
}
# Where a build with WEFT_GATES has what looks at each at run time, by where its word lies.
WATCH = Path('src/backing/atomic.h')
# No word of the pool is written there.
ELSEWHERE = {'cli', 'cuda', 'gpu', 'link', 'migrate', 'shim', 'stream', 'wire'}

CALL = re.compile(r'\b(?:atomic_(?:exchange|fetch_\w+?|compare_exchange_(?:strong|weak)|flag_test_and_set)(?:_explicit)?'
                  r'|__atomic_(?:exchange|fetch|compare|\w+_fetch)\w*|__sync_\w+)\(')
# A store that is ordered with all others is an exchange, too.
STORE = re.compile(r'\batomic_store(_explicit)?\(')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
FUNCTION = re.compile(r'^(?!\s|#|typedef|struct \w+ \{|enum|union)[^\n;={}]*?\b(\w+)\([^;{}]*\)\s*\{', re.M)
FIELDS = re.compile(r'_Atomic\s+(?:\w+\s+)+?((?:\w+(?:\[[^\]]*\])*\s*,?\s*)+);')
WARNED = re.compile(r'^(\S+?):(\d+):(\d+): warning: implicit use', re.M)
POOL = ('src/pool/format*.h', 'src/pool/doorbell.h', 'src/pool/hand.h', 'src/pool/outbox.h')


def blank(text):
    return COMMENT.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]), text)


def argument(text, at):
    """The first argument of the call whose parenthesis ends before `at`, and where it ends."""
    depth, start = 0, at
    while depth or text[at] not in ',)':
        depth += (text[at] in '([{') - (text[at] in ')]}')
        at += 1
    return ' '.join(text[start:at].split()), at


def function_at(text, at):
    """The function around that place; empty: none."""
    found = [m for m in FUNCTION.finditer(text, 0, at)]
    if not found or re.search(r'^\}', text[found[-1].end():at], re.M):
        return ''
    return found[-1][1]


def changes(text):
    """(place, function, word) of each exchange, fetch and compare."""
    for m in CALL.finditer(text):
        yield m.start(), function_at(text, m.start()), argument(text, m.end())[0].lstrip('&')
    for m in STORE.finditer(text):
        word, end = argument(text, m.end())
        order = text[end:end + 200].split(';')[0]
        if 'define' not in text[text.rfind('\n', 0, m.start()):m.start()] and (not m[1] or 'seq_cst' in order):
            yield m.start(), function_at(text, m.start()), word.lstrip('&')


def look(path, text, used):
    for at, function, word in changes(text):
        key = (str(path).removeprefix('src/'), function, word)
        used.append((key, text.count('\n', 0, at) + 1))
        if key not in TABLE:
            yield text.count('\n', 0, at) + 1, f'no gate: {function} changes {word}'
        elif TABLE[key][0] not in GATES:
            yield text.count('\n', 0, at) + 1, f'there is no gate {TABLE[key][0]}'


def askers(texts):
    """Functions that the table names as asking the owner, and that do not."""
    asks = {m[1] for text in texts.values() for m in re.finditer(r'^[^\s#][^\n;={}]*?\b(\w+)\([^;{}]*\)\s*\{(?:(?!^\}).)*?'
                                                                r'(?:weft_must_ask\(|asks_owner = )', text, re.M | re.S)}
    return [(Path('tools/check-atomics.py'), 0, f'{key}: asks no owner of another host: {row[2:]}')
            for key, row in TABLE.items() if row[0] == 'atomics' and (len(row) < 3 or row[2] not in asks)]


# ---- Plain assignments ----


def atomic_fields(root):
    return {re.match(r'\w+', part.strip())[0]
            for pattern in POOL for path in sorted(root.glob(pattern))
            for m in FIELDS.finditer(blank(path.read_text())) for part in m[1].split(',')}


def assigned(text, at):
    """What the implicit access at that place assigns to; None: it is a load."""
    behind = re.match(r'(?:\w|->|\.|\[[^\]]*\]|\(|\))*?(\w+)(?:\[[^\]]*\])*\s*(?:\+\+|--)', text[at:])
    if text[:at].rstrip().endswith(('++', '--')):
        return re.match(r'[*\s]*[\w.>()-]*?(\w+)(?:\[[^\]]*\])*(?!\w|->|\.|\()', text[at:])[1]
    if behind:
        return behind[1]
    before = text[:at].rstrip()
    if not re.match(r'(?:[-+*/%&|^]|<<|>>)=', text[at:]):
        if not re.search(r'(?<![=!<>+*/%&|^-])=$', before):
            return None
        before = before[:-1].rstrip()
    found = re.search(r'(\w+)(?:\[[^\]]*\])*$', before)
    return found and found[1]


def assignments(root, texts):
    fields = atomic_fields(root)
    names = '|'.join(sorted(fields))
    likely = re.compile(rf'\b(?:{names})\b(?:\[[^\]]*\])*\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)[^;]*\b(?:{names})\b')
    paths = [p for p in texts if p.suffix == '.c' and p.parts[1] not in ELSEWHERE and likely.search(texts[p])]
    if not paths:
        return
    done = subprocess.run(['clang', '-std=gnu17', '-D_GNU_SOURCE', '-Isrc', '-DWEFT_VERSION=""', '-fsyntax-only', '-ferror-limit=0',
                           '-Wno-everything', '-Watomic-implicit-seq-cst', '-fno-caret-diagnostics', *paths], cwd=root, text=True,
                          capture_output=True, check=False)
    seen = set()
    for name, line, column in WARNED.findall(done.stderr):
        path = Path(name)
        if (name, line, column) in seen or path not in texts:
            continue
        seen.add((name, line, column))
        lines = texts[path].splitlines(True)
        word = assigned(texts[path], sum(map(len, lines[:int(line) - 1])) + int(column) - 1)
        if word in fields and (name.removeprefix('src/'), word) not in NAMESAKES:
            yield path, int(line), f'plain assignment to {word}: an exchange'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--root', type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument('--list', action='store_true')
    args = parser.parse_args()
    texts = {p.relative_to(args.root): blank(p.read_text()) for p in sorted(args.root.glob('src/**/*.[ch]'))}
    used = []
    found = [(path, *offence) for path, text in texts.items() if path != WATCH for offence in look(path, text, used)]
    if args.list:
        for key, line in sorted(used):
            print(f'src/{key[0]}:{line}: {key[1]}: {key[2]}: {": ".join(TABLE.get(key, ("none",)))}')
    if (args.root / 'tools/check-atomics.py').exists():
        found += [(Path('tools/check-atomics.py'), 0, f'nothing is {key}') for key in TABLE.keys() - {k for k, _ in used}]
        found += askers(texts)
    has_clang = shutil.which('clang')
    found += assignments(args.root, texts) if has_clang else []
    for path, line, what in found:
        print(f'{path}:{line}: {what}')
    if not has_clang:
        print('check-atomics: clang is not installed')
    return 1 if found else 0 if has_clang else 77


if __name__ == '__main__':
    sys.exit(main())
