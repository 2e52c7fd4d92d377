# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Streams live: what senders that know nothing of Weft send is counted to the datagram, and apart what the kernel
drops; a capture goes round unchanged; the trigger decides live as it does for a file; the
trigger's chain loses nothing at the pace of a wire."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import xml.etree.ElementTree as xml

import pytest

from fabric import BUILD
from stream.capture import fits, frames, payload, stream, write_capture

ENDS = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
WIRE = '''
ip link add v0 type veth peer name v1
ip address add 192.0.2.2/24 dev v1
ip link set v0 up
ip link set v1 up
$0 stream receive --from udp:192.0.2.2:6666 --field 0,64 --socket 8388608 --quiet --json >"$1/got.json" &
until grep -q :1A0A /proc/net/udp; do sleep 0.02; done
tcpreplay -q -i v0 --pps 5000 "$1/x.pcap" >/dev/null
sleep 0.5
kill -TERM $!
wait $!
'''


def most_of_socket():
    with open('/proc/sys/net/core/rmem_max', encoding='ascii') as most:
        return int(most.read())


needs_room = pytest.mark.skipif(os.geteuid() != 0 and most_of_socket() < 4 << 20,
                                reason='the socket has to hold 4 MiB: root, or net.core.rmem_max')


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.bind(('127.0.0.1', 0))
        return it.getsockname()[1]


def bound(port):
    with open('/proc/net/udp', encoding='ascii') as lines:
        return any(line.split()[1].endswith(f':{port:04X}') for line in lines if ':' in line)


def await_read(port):
    """Returns when the program has read all that the socket on that port held."""
    end = time.monotonic() + 60
    while True:
        with open('/proc/net/udp', encoding='ascii') as lines:
            left = [line for line in lines if ':' in line and line.split()[1].endswith(f':{port:04X}') and
                    not line.split()[4].endswith(':00000000')]
        if not left:
            return
        assert time.monotonic() < end, left
        time.sleep(0.01)


@contextlib.contextmanager
def running(words, **options):
    """A process that outlives no failure of the block."""
    with subprocess.Popen(words, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextlib.contextmanager
def command(verb, port, *words):
    """The report of a verb that receives, once the block has ended and a moment has passed."""
    process = subprocess.Popen([BUILD / 'weft', 'stream', verb, '--from', f'udp:127.0.0.1:{port}', '--json',
                                *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    report = {}
    try:
        end = time.monotonic() + 30
        while not bound(port):
            assert process.poll() is None and time.monotonic() < end, process.communicate()
            time.sleep(0.01)
        yield report
        await_read(port)
        time.sleep(0.5)  # for the program to count, and tell of, what it has read last
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        report.update(json.loads(out))
    finally:
        process.kill()
        process.wait()


def receive(port, *words):
    return command('receive', port, '--quiet', *words)


def generate(port, *words):
    return json.loads(stream('generate', '--to', f'udp:127.0.0.1:{port}', '--json', *words).stdout)


def sound(account):
    assert account['arrived'] == sum(account[k] for k in ('placed', 'duplicate', 'late', 'bad', 'no_buffer'))
    assert account['sent'] == account['arrived'] - account['duplicate'] + account['lost']
    assert not account['failed']


@needs_room
def test_socat(tmp_path):
    """Pieces of a file, each a datagram."""
    data = random.Random(1).randbytes(2000 * 700 + 11)
    (tmp_path / 'x').write_bytes(data)
    port = free_port()
    with receive(port, '--socket', 8 << 20, '--write', tmp_path / 'got.pcap') as report:
        subprocess.run(['socat', '-u', '-b700', f'OPEN:{tmp_path}/x', f'UDP4:127.0.0.1:{port}'], check=True)
    sound(report['account'])
    assert report['account']['arrived'] == report['account']['placed'] == 2001
    assert b''.join(payload(f) for _, f in frames(tmp_path / 'got.pcap')) == data


def numbered(count, rng):
    return [struct.pack('<Q', n) + rng.randbytes(rng.randrange(1400)) for n in range(count)]


def test_tcpreplay(tmp_path):
    """Datagrams with missing numbers, copies and another order: each is counted as what it is."""
    rng = random.Random(2)
    sent = numbered(3000, rng)
    lost = set(rng.sample(range(1, 2999), 200))
    order = [d for n, d in enumerate(sent) if n not in lost]
    for at in rng.sample(range(1, len(order) - 2), 100):
        order[at], order[at + 1] = order[at + 1], order[at]
    copies = rng.sample(range(len(order)), 150)
    order += [order[at] for at in copies if at > len(order) - 900]
    doubled = len(order) - 2800
    write_capture(tmp_path / 'x.pcap', [(i * 20000, d) for i, d in enumerate(order)], ends=ENDS)
    if subprocess.run(['unshare', '-rn', 'true'], check=False).returncode:
        pytest.skip('no namespaces of users and networks here')
    subprocess.run(['unshare', '-rn', 'sh', '-ec', WIRE, BUILD / 'weft', tmp_path], check=True)
    account = json.loads((tmp_path / 'got.json').read_text())['account']
    sound(account)
    assert (account['arrived'], account['duplicate'], account['lost'], account['bad']) == (
        len(order), doubled, 200, 0)
    assert account['reordered'] > 50 and account['sent'] == 3000


@pytest.mark.parametrize('segments', [1, 40])
def test_small_socket(segments):
    """What does not fit into the socket is dropped by the kernel, which counts it: each datagram, or each message where
    datagrams travel joined. One more datagram, sent at the end, arrives."""
    port = free_port()
    with receive(port, '--field', '0,64', '--socket', 20000) as report:
        done = generate(port, '--sequenced', 1000, '--events', 40000, '--rate', 1e9, '--segments', segments)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            time.sleep(0.5)
            last.sendto(struct.pack('<Q', 40000) + bytes(8), ('127.0.0.1', port))
    account = report['account']
    assert done['sent']['datagrams'] == 40000 and done['sent']['refused'] == 0
    sound(account)
    assert account['dropped'] > 0
    assert account['arrived'] + account['dropped'] * segments == account['sent'] == 40001
    assert account['lost'] == account['dropped'] * segments


@pytest.mark.skipif(not shutil.which('tcpdump') or os.geteuid() != 0, reason='needs tcpdump, and root')
def test_capture_goes_round(tmp_path):
    """Captured by tcpdump, replayed, received and captured: the same datagrams, in about the same times."""
    port, other = free_port(), free_port()
    with running(['tcpdump', '-i', 'lo', '-B', '8192', '-w', tmp_path / 'x.pcap', '-Z', 'root',
                  '--immediate-mode', f'udp port {port}'], stderr=subprocess.PIPE) as dump:
        while b'listening' not in dump.stderr.readline():
            assert dump.poll() is None
        with receive(port):
            generate(port, '--events', 3000, '--rate', 1e5)
        dump.send_signal(signal.SIGINT)
    with receive(other, '--socket', 8 << 20, '--write', tmp_path / 'y.pcap') as report:
        done = json.loads(stream('replay', '--read', tmp_path / 'x.pcap', '--port', port, '--to',
                                 f'udp:127.0.0.1:{other}', '--json').stdout)
    sound(report['account'])
    assert report['account']['dropped'] == 0
    stream('replay', '--read', tmp_path / 'x.pcap', '--to', f'udp:127.0.0.1:{free_port()}', '--pace', '1gbe')
    stream('generate', '--write', tmp_path / 'made.pcap', '--events', 3000, '--rate', 1e5)
    made = list(frames(tmp_path / 'made.pcap'))
    got = list(frames(tmp_path / 'y.pcap'))
    assert [payload(f) for _, f in got] == [payload(f) for _, f in made]
    assert done['sent']['datagrams'] == len(made)
    assert 0.9 < done['sent']['took_ns'] / (made[-1][0] - made[0][0]) < 1.5


@needs_room
def test_trigger_decides_alike(tmp_path):
    """The trigger finds live the rings that it finds in a file with the same events."""
    words = ['--events', 4000, '--rings', '1,3,1,0,0', '--seed', 5]
    stream('generate', '--write', tmp_path / 'x.pcap', *words)
    stream('trigger', '--read', tmp_path / 'x.pcap', '--fits', tmp_path / 'file')
    port, back = free_port(), free_port()
    with receive(back) as primitives, \
            command('trigger', port, '--fits', tmp_path / 'live', '--to', f'udp:127.0.0.1:{back}', '--socket',
                    8 << 20) as report:
        generate(port, '--stamp', '--pace', '1gbe', *words)
        time.sleep(2)
    assert fits(tmp_path / 'live') == fits(tmp_path / 'file')
    assert report['trigger']['events'] == 4000 and report['account']['lost'] == 0
    assert report['chain_ns']['count'] == report['chain']['buffers'] > 0
    assert primitives['account']['arrived'] == report['trigger']['datagrams'] > 0


def test_primitives_come_back():
    port, back = free_port(), free_port()
    with command('trigger', port, '--to', f'udp:127.0.0.1:{back}', '--algorithm', 'crawford', '--gather', 64):
        done = generate(port, '--events', 2000, '--rate', 1e5, '--stamp', '--back', f'127.0.0.1:{back}')
    assert done['back']['bad'] == 0 and done['back']['primitives'] > 1000
    assert done['back_ns']['count'] == done['back']['datagrams']
    # those that take part in a latency of more than a millisecond, and no others, are misses
    assert (done['back']['misses'] > 0) == (done['back_ns']['max'] > 10**6)


def test_ring(tmp_path):
    """Another process writes into memory; the reader takes it from there."""
    words = [BUILD / 'weft', 'stream', 'receive', '--from', f'ring:{tmp_path}/ring', '--field', '0,64',
             '--datagrams', '50000', '--json', '--quiet']
    with running(words, stdout=subprocess.PIPE) as process:
        while not (tmp_path / 'ring').exists():
            time.sleep(0.01)
        done = json.loads(stream('generate', '--to', f'ring:{tmp_path}/ring', '--sequenced', 1000, '--events',
                                 50000, '--rate', 1e9, '--json').stdout)
        account = json.loads(process.communicate(timeout=60)[0])['account']
    sound(account)
    assert account['arrived'] == done['sent']['datagrams'] == 50000 and account['lost'] == 0
    assert not list(tmp_path.iterdir())


@contextlib.contextmanager
def reading(ring):
    """A receiver of that ring, which may be killed."""
    with running([BUILD / 'weft', 'stream', 'receive', '--from', f'ring:{ring}', '--quiet'], stdout=subprocess.DEVNULL) as process:
        while not ring.exists():
            time.sleep(0.01)
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize('rate', [1e5, 1e7])
def test_reader_of_a_ring_goes(tmp_path, how, rate):
    """Its writer ends by itself, and says why."""
    with reading(tmp_path / 'ring') as process:
        with running([BUILD / 'weft', 'stream', 'generate', '--to', f'ring:{tmp_path}/ring', '--seconds', '60', '--rate', str(rate), '--json'],
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
            time.sleep(0.5)
            process.send_signal(how)
            process.wait()
            out, err = writer.communicate(timeout=30)
    assert writer.returncode == 1 and 'the reader of the ring has gone' in err
    assert json.loads(out)['sent']['refused'] > 0


@pytest.mark.parametrize('words', [['--seconds', '1'], ['--seconds', '60']])
def test_reader_of_a_ring_stands_still(tmp_path, words):
    """Its writer ends when its time is up, or at SIGTERM."""
    with reading(tmp_path / 'ring') as process:
        process.send_signal(signal.SIGSTOP)
        with running([BUILD / 'weft', 'stream', 'generate', '--to', f'ring:{tmp_path}/ring', '--rate', '1e7', '--json', *words],
                     stdout=subprocess.PIPE, text=True) as writer:
            time.sleep(1)
            if '60' in words:
                writer.send_signal(signal.SIGTERM)
            out = writer.communicate(timeout=30)[0]
    assert writer.returncode == 0 and json.loads(out)['sent']['waits'] > 0


def test_a_file_is_no_ring(tmp_path):
    (tmp_path / 'mine').write_text('precious')
    said = stream('receive', '--from', f'ring:{tmp_path}/mine', '--seconds', '0.1', ok=False).stderr
    assert 'File exists' in said and (tmp_path / 'mine').read_text() == 'precious' and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize('words', [['trigger', '--read', 'x', '--write', 'x'], ['trigger', '--read', 'x', '--fits', 'link'],
                                   ['trigger', '--read', 'x', '--svg', 'x'], ['generate', '--write', 'y', '--truth', 'y'],
                                   ['trigger', '--read', 'x', '--svg', '/nowhere/y']])
def test_files_are_not_written_over(tmp_path, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream('generate', '--write', 'x', '--events', 1000)
    before = (tmp_path / 'x').read_bytes()
    (tmp_path / 'link').symlink_to('x')
    said = stream(*words, ok=False).stderr
    assert re.search('same file|another of the files|No such file', said)
    assert (tmp_path / 'x').read_bytes() == before and not (tmp_path / 'y').exists()


def test_nothing_was_sent():
    said = stream('generate', '--to', 'udp:127.0.0.1:0', '--events', 3, ok=False).stderr
    assert 'datagrams were not sent: Invalid argument' in said


def test_stamps():
    """Every datagram has a stamp for each stage; the histograms of the stages, and of all together, have as many entries."""
    port, count = free_port(), 3000
    with receive(port, '--field', '0,64', '--socket', 8 << 20, '--stamps') as report:
        generate(port, '--sequenced', 500, '--events', count, '--rate', 20000)
        await_read(port)
    assert report['stamps']['fell'] == 0
    assert 0 < report['stamps']['tick_ns'] <= 4
    for stage in ('resolve_ns', 'place_ns', 'signal_ns', 'whole_ns'):
        assert report[stage]['count'] == report['account']['placed'] > 0, stage
    assert report['whole_ns']['max'] >= max(report[stage]['max'] for stage in ('resolve_ns', 'place_ns', 'signal_ns'))


def test_each_second():
    port = free_port()
    process = subprocess.run([BUILD / 'weft', 'stream', 'receive', '--from', f'udp:127.0.0.1:{port}', '--seconds',
                              '2.2'], capture_output=True, text=True, check=True)
    assert process.stderr.count('datagrams/s') == 2 and 'account' in process.stdout


def test_info():
    told = json.loads(stream('info', '--json').stdout)
    assert [p['protocol'] for p in told['protocols']] == ['raw', 'sequenced', 'mgp', 'ape']
    assert told['machine']['links'] == 'udp ring packet torus'
    with open('/proc/sys/net/core/rmem_max', encoding='ascii') as most:
        assert told['machine']['socket_most'] == int(most.read())


@pytest.mark.parametrize('words, said', [
    (['receive'], '--from'),
    (['receive', '--from', 'pigeon:1'], 'Protocol not supported'),
    (['receive', '--from', 'udp:1'], 'ADDRESS:PORT'),
    (['receive', '--from', 'udp:192.0.2.1:1'], 'assign'),
    (['receive', '--from', 'udp::0', '--field', '0,24', '--seconds', '1'], 'width'),
    (['receive', '--from', 'udp::0', '--field', '0'], 'no such value'),
    (['receive', '--from', 'udp::0', '--protocol', 'mgp', '--field', '0,64'], '--field goes with'),
    (['receive', '--from', 'udp::0', '--field', '0,64', '--protocol', 'raw'], '--field goes with'),
    (['receive', '--from', 'udp::0', '--longest', '64'], '--longest goes with --slots'),
    (['receive', '--from', 'udp::0', '--svg', '/tmp/x.svg'], '--svg goes with --stamps'),
    (['replay', '--read', 'x', '--to', 'udp:127.0.0.1:9', '--pace', '1gbe', '--scale', '1'], 'either --pace or --scale'),
    (['trigger', '--read', 'x', '--seconds', '1'], 'go with --from'),
    (['trigger', '--read', 'x', '--threads', '2'], 'go with --from'),
    (['trigger', '--read', 'x', '--drop'], '--drop goes with'),
    (['receive', '--from', 'udp::0', '--ordered', '--seconds', '1'], 'ordered'),
    (['receive', '--from', 'udp::0', '--write', '/nowhere/x'], 'No such file'),
    (['replay', '--read', 'x'], '--to'),
    (['replay', '--read', '/nowhere/x', '--to', 'udp:127.0.0.1:9'], 'No such file'),
    (['replay', '--read', 'x', '--to', 'pigeon:1'], 'Invalid'),
    (['trigger', '--read', 'x', '--from', 'udp::0'], 'trigger'),
    (['trigger', '--from', 'udp:x'], 'ADDRESS:PORT'),
    (['trigger', '--from', 'udp::0', '--to', 'x'], 'Invalid'),
    (['generate', '--to', 'ring:/nowhere/ring'], 'No such file'),
    (['generate', '--to', 'udp:127.0.0.1:9', '--write', 'x'], 'either'),
    (['generate', '--seconds', '1'], 'to where'),
    (['generate', '--write', 'x', '--segments', '4'], 'to where'),
    (['generate', '--to', 'udp:127.0.0.1:9', '--back', 'x', '--events', '1'], 'Invalid'),
    (['bench', '--rounds', '0'], 'no such value'),
    (['latency', '--seconds', '0'], 'no such value'),
    (['latency', '--svg'], '--svg'),
    (['bench', '--socket', 99999999], 'no such value'),
    (['bench', '--socket', 65536], 'rmem_max'),
    (['info', 'x'], "what is 'x'"),
    (['info', '--what'], "unknown option '--what'"),
    (['generate', '--rings'], "no value behind '--rings'"),
    (['generate', '--write', 'x', '--rings', '1,2'], "--rings: no such value: '1,2'"),
    (['receive', '--from', 'udp::0', '--from', 'udp::0'], "--from: no such value"),
])
def test_refused(words, said):
    assert said in stream(*words, ok=False).stderr


def drawn(path):
    """Names of the lines in a picture; every line falls, and stays within it."""
    root, space = xml.parse(path).getroot(), '{http://www.w3.org/2000/svg}'
    lines = root.findall(f'{space}polyline')
    for line in lines:
        points = [tuple(map(float, point.split(','))) for point in line.get('points').split()]
        assert points == sorted(points) and [y for _, y in points] == sorted(y for _, y in points)
        assert all(0 <= x <= 720 and 0 <= y <= 420 for x, y in points)
    return [line.find(f'{space}title').text.split(':')[0] for line in lines]


def test_picture(tmp_path):
    """Of what a receiver has stamped there is a line for each stage; without a histogram there is nothing to draw."""
    port = free_port()
    with receive(port, '--field', '0,64', '--stamps', '--svg', tmp_path / 'x.svg'):
        generate(port, '--sequenced', 500, '--events', 200, '--rate', 2000)
    assert drawn(tmp_path / 'x.svg') == ['resolve_ns', 'place_ns', 'signal_ns', 'whole_ns']
    assert 'No data' in stream('info', '--svg', tmp_path / 'y.svg', ok=False).stderr


def latency(*words):
    done = json.loads(stream('latency', '--json', *words).stdout)
    for part in ('stream_ns', 'bare_ns'):
        assert done[part]['count'] > 0 and done[part]['p50'] <= done[part]['p99_9'] <= done[part]['max']
    gaps = done['gaps_wait_ns']
    assert 0 <= gaps['p50'] <= gaps['p90'] <= gaps['p99'] <= gaps['p99_9'] <= gaps['max'] < gaps['looked_ns']
    return done


def test_latency(tmp_path):
    latency('--seconds', '0.2', '--svg', tmp_path / 'x.svg')
    assert drawn(tmp_path / 'x.svg') == ['stream_ns', 'bare_ns', 'gaps_ns']


@pytest.mark.alone
def test_latency_is_a_sockets():
    """In the median it takes a stream at most one and a half times as long as bare sockets, at least in one of five tries."""
    tries = [latency('--seconds', 1) for _ in range(5)]
    print(tries)
    assert min(one['stream_ns']['p50'] / one['bare_ns']['p50'] for one in tries) <= 1.5


@needs_room
def test_bench():
    done = subprocess.run([BUILD / 'weft', 'stream', 'bench', '--rounds', '1', '--json'], check=False, text=True,
                          capture_output=True)
    rows = json.loads(done.stdout)['reception']
    rate = {(row['bytes'], row['segments'], row['into']): row['datagrams_s'] for row in rows}
    assert len(rate) == len(rows) == 15
    for row in rows:
        beside = rate[row['bytes'], row['segments'], row['beside']]
        assert row['percent'] == pytest.approx(100 * row['datagrams_s'] / beside, abs=0.6)
        assert row['held'] == (row['percent'] >= row['bound_percent'])
    assert done.returncode == (not all(row['held'] for row in rows)), done.stderr


@pytest.mark.alone
def test_pace():
    """At 125 MB/s on the wire the payload has 119.64 MB/s."""
    done = generate(free_port(), '--sequenced', 1472, '--pace', '1gbe', '--seconds', 5)
    sent, each = done['sent'], 1538 * 8
    rate = (sent['bytes'] - 1472) / sent['took_ns'] * 1000
    assert sent['refused'] == 0 and done['late_ns']['count'] == sent['datagrams']
    assert rate == pytest.approx(119.64, rel=1e-3), done
    assert sent['took_ns'] == pytest.approx((sent['datagrams'] - 1) * each, rel=1e-3)


def chain(port, back):
    with command('trigger', port, '--to', f'udp:127.0.0.1:{back}', '--algorithm', 'crawford', '--socket', 4 << 20,
                 '--gather', 512) as report:
        done = generate(port, '--pace', '1gbe', '--seconds', 10, '--stamp', '--back', f'127.0.0.1:{back}')
    print(json.dumps({'generate': done, 'trigger': report}, indent=1))
    return done, report


@pytest.mark.slow
@needs_room
def test_chain():
    """Ten seconds of events at the pace of 1 GbE: nothing is lost, and half of what is decided is back
    within a millisecond of the first datagram. A run in which the machine keeps the sender itself waiting for longer
    than the socket and the buffers can hold shows nothing: one of three runs has to be without such a wait."""
    stood_ns = []
    for _ in range(3):
        done, report = chain(free_port(), free_port())
        account = report['account']
        sound(account)
        assert report['trigger']['events'] == account['events']
        assert done['back']['primitives'] == report['trigger']['primitives'] > 0
        assert account['arrived'] + account['dropped'] == done['sent']['datagrams'] and not done['sent']['refused']
        if account['placed'] == done['sent']['datagrams'] and done['back_ns']['p50'] < 10**6:
            assert report['trigger']['events'] == done['generate']['events'] > 14e6
            assert report['chain_ns']['p50'] < 10**6
            return
        stood_ns.append(done['late_ns']['max'])
    assert min(stood_ns) > 4 * 10**6, 'lost though the machine never stood still'
    pytest.skip(f'the machine stood still for {[ns // 10**6 for ns in stood_ns]} ms')


@pytest.mark.alone
def test_memory_fed(tmp_path):
    """Events through a ring of memory, as fast as they come: the trigger with its receiver is 0.7 times as fast as the slower of
    the two alone, at least in one of five tries. Together they have three threads, alone one and two."""
    def run(verb, *words):
        ring = tmp_path / verb
        with running([BUILD / 'weft', 'stream', verb, '--from', f'ring:{ring}', '--json', *words],
                     stdout=subprocess.PIPE) as process:
            while not ring.exists():
                time.sleep(0.01)
            done = json.loads(stream('generate', '--to', f'ring:{ring}', '--pace', 'free', '--rate', 1e9,
                                     '--seconds', 1, '--json').stdout)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            report = json.loads(process.communicate(timeout=60)[0])
        sound(report['account'])
        assert report['account']['arrived'] == done['sent']['datagrams']
        return report['account']['events'] / done['sent']['took_ns']

    fit = ['--algorithm', 'crawford', '--gather', '512']
    stream('generate', '--write', tmp_path / 'events', '--events', 500000)
    rates = []
    for _ in range(5):
        begun = time.monotonic_ns()
        read = json.loads(stream('trigger', '--read', tmp_path / 'events', *fit, '--json').stdout)
        fitting = read['trigger']['events'] / (time.monotonic_ns() - begun)
        receiving = run('receive', '--protocol', 'mgp', '--quiet')
        rates.append(run('trigger', *fit) / min(fitting, receiving))
        if rates[-1] >= 0.7:
            break
    print(rates)
    assert max(rates) >= 0.7, rates


def test_example():
    """examples/stream.c says what has come, and how much in all."""
    port = free_port()
    with running([BUILD / 'examples' / 'stream', f'udp:127.0.0.1:{port}'], stdout=subprocess.PIPE,
                 text=True) as process:
        while not bound(port):
            assert process.poll() is None
            time.sleep(0.01)
        generate(port, '--sequenced', 1000, '--events', 60, '--rate', 100000)  # any socket holds them
        first = process.stdout.readline()
        assert first.startswith('buffer 0: ') and first.endswith(', the first is 0\n')
        await_read(port)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0].endswith('60 datagrams came\n')
        assert process.returncode == 0
    refused = subprocess.run([BUILD / 'examples' / 'stream', 'pigeon:1'], capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.startswith('cannot bind a source: ')


def touches(folder, bytes_each, count, *words):
    """Loads and stores of user space while a receiver takes so many datagrams, all of which had come before."""
    port, out = free_port(), folder / f'touches.{bytes_each}.{count}'
    with running(['valgrind', '-q', '--tool=cachegrind', '--cache-sim=yes', f'--cachegrind-out-file={out}',
                  BUILD / 'weft', 'stream', 'receive', '--from', f'udp:127.0.0.1:{port}', '--field', '0,64',
                  '--datagrams', str(count), '--socket', str(8 << 20), '--quiet', '--json', *words],
                 stdout=subprocess.PIPE) as process:
        while not bound(port):
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        generate(port, '--sequenced', bytes_each, '--events', count, '--rate', 100000)
        process.send_signal(signal.SIGCONT)
        account = json.loads(process.communicate(timeout=120)[0])['account']
    assert account['placed'] == count and not account['dropped']
    names, total = (re.search(rf'^{what}: (.*)', out.read_text(), re.M)[1].split() for what in ('events', 'summary'))
    counts = dict(zip(names, map(int, total)))
    return counts['Dr'] + counts['Dw']


@needs_room
@pytest.mark.parametrize('layout, least, most', [(['--slots', '64', '--longest', '1472'], -16, 16),
                                                 ([], 2 * 1408 / 64, 2 * 1408 / 16 + 16)])
def test_copies(tmp_path, layout, least, most):
    """A datagram of 1,472 bytes costs slots as many loads and stores as one of 64, and packed buffers those of one copy more."""
    each = [(touches(tmp_path, size, 2000, *layout) - touches(tmp_path, size, 1000, *layout)) / 1000
            for size in (64, 1472)]
    print(each)
    assert least <= each[1] - each[0] <= most, each
