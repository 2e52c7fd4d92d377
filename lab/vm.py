# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What virtual machines of the lab have in common: Debian's kernel, unpacked below .cache/lab, and this machine's
files; and several of them on one memory, as guests.

A guest takes commands by files in a folder that it shares with us: lab/agent runs what it finds there."""
import contextlib
import ctypes
import fcntl
import json
import lzma
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LAB = Path(__file__).resolve().parent
CACHE = LAB.parent / '.cache/lab'
PACKAGE = 'linux-image-6.12-amd64'
BACKPORTS, QEMU_PACKAGES = 'bookworm-backports', ['qemu-system-x86', 'qemu-system-data', 'seabios']
# What runs guests, each with a program of it; the guest itself has the same busybox and kmod.
TOOLS = {'qemu-system-x86': 'usr/bin/qemu-system-x86_64', 'busybox-static': 'bin/busybox', 'cpio': 'bin/cpio', 'kmod': 'bin/kmod'}
# What the guest's first program needs to reach the files of this machine, in order.
FIRST_MODULES = ['netfs', '9pnet', '9pnet_virtio', '9p', 'overlay']
ADDRESS = '0000:00:10.0'  # of the device with the shared memory
SLOT = '10'
BUS = ',bus=pcie.0'  # where there is one of CXL, too, QEMU takes any
EMULATED = 'tcg,thread=multi'
BOOT_S, COMMAND_S = 900, 300  # emulated, on a machine with much other work


def out(*argv, **options):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options).stdout


@contextlib.contextmanager
def unpacked(folder, names, *options):
    """Packages of Debian, unpacked and not installed."""
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        print(f'lab: fetching {" ".join(names)}', file=sys.stderr)
        out('apt-get', *options, '-o', 'Acquire::http::Timeout=60', 'download', *names, cwd=work)
        new = Path(work, 'new')
        for package in Path(work).glob('*.deb'):
            out('dpkg', '-x', package, new)
        yield new
        new.rename(folder)


def fetch_tools(folder):
    """Those packages with all that apt would install for them here, next to what this machine has."""
    planned = out('apt-get', '-s', '--no-install-recommends', 'install', *TOOLS)
    with unpacked(folder, re.findall(r'^Inst (\S+)', planned, re.M)):
        pass


def fetch_kernel(folder):
    name = re.search(r'Depends: (linux-image-\S+)', out('apt-cache', 'depends', PACKAGE))[1]
    with unpacked(folder, [name]) as new:
        out('depmod', '-b', new, next((new / 'lib/modules').iterdir()).name, executable=tool('kmod'))


def fetch_qemu(folder):
    """Debian 12's QEMU has no volatile memory of CXL, that of its backports does. It wants the same libraries. Lists and cache of its own:
    what apt installs on this machine stays as it is."""
    mirror = re.search(r'(https?://\S+?)/? bookworm/main ', out('apt-cache', 'policy'))[1]
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        sources = Path(work, 'sources')
        sources.write_text(f'deb {mirror} {BACKPORTS} main\n')
        for name in ('lists/partial', 'cache/archives/partial'):
            Path(work, name).mkdir(parents=True)
        options = [f'-oDir::Etc::sourcelist={sources}', '-oDir::Etc::sourceparts=-', f'-oDir::State::lists={work}/lists',
                   f'-oDir::Cache={work}/cache', '-oAPT::Sandbox::User=root']
        out('apt-get', *options, 'update')
        with unpacked(folder, QEMU_PACKAGES, *options):
            pass


def fetched(name, fetch):
    """That folder below .cache/lab; fetched once, by one of those that want it."""
    folder = CACHE / name
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / 'lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                fetch(folder)
    return folder


def installed():
    return all(shutil.which(Path(path).name) for path in TOOLS.values())


def tools():
    """The folder of the packages that run guests, unpacked; None: this machine has all of them installed."""
    return None if installed() else fetched('tools', fetch_tools)


def not_here():
    """Why a test boots no guest: it fetches none of what runs guests. None: that is here."""
    if installed() or (CACHE / 'tools').exists():
        return None
    return f'{", ".join(TOOLS)} are neither installed nor unpacked: make lab-pcie fetches them'


def tool(package):
    """Its program, installed or unpacked."""
    folder = tools()
    return folder / TOOLS[package] if folder else Path(shutil.which(Path(TOOLS[package]).name))


def libraries():
    """The environment of an unpacked program: its libraries lie beside it."""
    folder = tools()
    return {**os.environ, 'LD_LIBRARY_PATH': str(folder / 'usr/lib/x86_64-linux-gnu')} if folder else os.environ


def tools_word():
    """On the kernel's command line: where the guest finds what this machine has not installed."""
    folder = tools()
    return f' weft.tools={folder}' if folder else ''


def kernel():
    """The folder of the unpacked kernel package."""
    tools()  # for its depmod; what fetches holds a lock
    return fetched('kernel', fetch_kernel)


def initramfs(folder, modules):
    """An archive of busybox, the first modules and lab/init, which is the guest's first program."""
    root = folder / 'root'
    for name in ('bin', 'modules', 'dev', 'proc', 'new'):
        (root / name).mkdir(parents=True)
    shutil.copy(tool('busybox-static'), root / 'bin')
    shutil.copy(LAB / 'init', root)
    for number, name in enumerate(FIRST_MODULES):
        packed = next(modules.rglob(f'{name}.ko.xz'))
        (root / f'modules/{number}.ko').write_bytes(lzma.decompress(packed.read_bytes()))
    names = ''.join(f'{p.relative_to(root)}\n' for p in sorted(root.rglob('*')))
    archive = folder / 'initramfs'
    with open(archive, 'wb') as file:
        subprocess.run([tool('cpio'), '--quiet', '-o', '-H', 'newc'], cwd=root, input=names.encode(),
                       stdout=file, check=True)
    return archive


def accelerator():
    """KVM needs the processor's extensions: some hosts have a /dev/kvm without them, which fails."""
    flags = re.search(r'^flags.* (vmx|svm)\b', Path('/proc/cpuinfo').read_text(), re.M)
    return 'kvm' if flags and os.access('/dev/kvm', os.W_OK) else EMULATED


def share(tag, path, readonly, where=''):
    return ['-fsdev', f'local,id={tag},path={path},security_model=none,multidevs=remap' + (',readonly=on' if readonly else ''),
            '-device', f'virtio-9p-pci,fsdev={tag},mount_tag={tag}{where}']


def die_with_parent():
    """In the guest's process: however this process ends, the guest ends with it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Trouble(Exception):
    """A guest, or a command in it, has failed; has the text of the console."""


class Command:
    """A shell command in a guest, begun. It is over, too, when the guest has gone or boots again."""

    def __init__(self, guest, number, line):
        self.guest, self.number, self.line, self.life = guest, number, line, guest.life

    def file(self, kind):
        return self.guest.job / f'{self.number}.{kind}'

    def output(self):
        return self.file('out').read_text(errors='replace') if self.file('out').exists() else ''

    def is_over(self):
        return self.file('status').exists() or self.life != self.guest.life

    def wait(self, seconds):
        """Its exit status and output; Trouble if it takes longer."""
        end = time.monotonic() + seconds
        while not self.is_over():
            self.guest.must_run()
            if time.monotonic() > end:
                raise Trouble(f'{self.guest.name}: not over after {seconds} s: {self.line}\n{self.output()}'
                              f'\n-- console\n{self.guest.console_text()}')
            time.sleep(0.01)
        if not self.file('status').exists():
            raise Trouble(f'{self.guest.name} went in the middle of {self.line}\n{self.output()}')
        return int(self.file('status').read_text()), self.output()

    def done(self, seconds):
        """Its output; Trouble unless it succeeds."""
        status, text = self.wait(seconds)
        if status:
            raise Trouble(f'{self.guest.name}: status {status}: {self.line}\n{text}')
        return text

    def end(self):
        """Asks it to, and has its exit status when it has."""
        self.ask_to('term')
        return self.wait(COMMAND_S)[0]

    def kill(self):
        """It has ended when this returns."""
        if self.ask_to('kill'):
            self.wait(COMMAND_S)

    def ask_to(self, end):
        """False: it is over."""
        if self.is_over():
            return False
        self.file(end).touch()
        self.guest.ring()
        return True


class Guest:
    """One virtual machine: `argv` is its share of QEMU's command line. Its address on the card is 192.0.2.NUMBER + 1."""

    def __init__(self, folder, number, backing, argv, emulated=False, reboots=False, bare=False):
        self.name, self.number, self.life = f'guest{number}', number, 0
        self.job = folder / self.name
        self.job.mkdir()
        shutil.copy(LAB / 'guest', self.job / 'second')
        shutil.copy(LAB / 'agent', self.job)
        self.console = folder / f'{self.name}.console'
        self.commands = 0
        self.address = f'192.0.2.{number + 1}'
        base = kernel()
        modules = next((base / 'lib/modules').iterdir())
        self.argv = [*backing.qemu(), *backing.machine, '-accel', EMULATED if emulated or backing.emulated else accelerator(), '-smp', '2',
                     '-m', '1G,slots=2,maxmem=4G', '-display', 'none', '-nodefaults',
                     *([] if reboots else ['-no-reboot']), '-kernel', next((base / 'boot').glob('vmlinuz-*')), '-initrd', folder / 'initramfs',
                     '-append', 'console=ttyS0 panic=-1 quiet mitigations=off no_timer_check iomem=relaxed '
                     f'weft.second=/run/job/second weft.number={number} weft.{"bare" if bare else backing.name}{tools_word()}',
                     '-serial', f'file:{self.console}', '-device', f'virtio-rng-pci{BUS}',
                     *share('host', '/', True, BUS), *share('modules', modules.parent, True, BUS),
                     *share('job', self.job, False, BUS), '-device', f'virtio-serial-pci{BUS}', '-chardev', 'stdio,id=bell,signal=off',
                     '-device', 'virtserialport,chardev=bell', *argv]
        self.process = None

    def begin_life(self):
        """What its commands were goes with the last one."""
        self.life += 1
        (self.job / 'up').unlink(missing_ok=True)

    def boot(self):
        """For the first time, or when it has been killed."""
        self.begin_life()
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=libraries(),
                                        stderr=open(self.job / 'qemu', 'wb'),  # noqa: SIM115
                                        preexec_fn=die_with_parent)  # pylint: disable=subprocess-popen-preexec-fn

    def console_text(self):
        text = self.console.read_text(errors='replace') if self.console.exists() else ''
        return (self.job / 'qemu').read_text(errors='replace') + text[-4000:]

    def must_run(self):
        if self.process.poll() is not None:
            raise Trouble(f'{self.name} has ended\n-- console\n{self.console_text()}')

    def await_up(self, seconds=BOOT_S):
        end = time.monotonic() + seconds
        while not (self.job / 'up').exists():
            self.must_run()
            if time.monotonic() > end:
                raise Trouble(f'{self.name} is not up after {seconds} s\n-- console\n{self.console_text()}')
            time.sleep(0.1)

    def start(self, *words, root=False, **env):
        """Begins a command, as an ordinary user unless `root`."""
        argv = list(map(str, words))
        return self.ask(shlex.join(argv), {'argv': argv, 'root': root, 'cwd': os.getcwd(),
                                           'env': {name: str(value) for name, value in env.items()}})

    def ask(self, line, request):
        self.commands += 1
        command = Command(self, self.commands, line)
        command.file('asked').write_text(json.dumps(request))
        command.file('asked').rename(command.file('run'))
        self.ring()
        return command

    def ring(self):
        """lab/agent looks at once for what is new; when it is up, if it is not."""
        with contextlib.suppress(BrokenPipeError):  # it has gone, which must_run tells
            os.write(self.process.stdin.fileno(), b'.')

    def call(self, name, *args):
        """What a function of lab/agent returns."""
        return json.loads(self.ask(name, {'call': name, 'args': args}).done(COMMAND_S))

    def run(self, *words, must_succeed=True, **options):
        command = self.start(*words, **options)
        return command.done(COMMAND_S) if must_succeed else command.wait(COMMAND_S)[1]

    def reboot(self):
        """At once, from inside, without a word to its programs. When it did (time.monotonic)."""
        command = self.start('sh', '-c', 'echo b >/proc/sysrq-trigger', root=True)
        end = time.monotonic() + COMMAND_S
        while not command.file('pid').exists():
            self.must_run()
            if time.monotonic() > end:
                raise Trouble(f'{self.name} does not reboot\n-- console\n{self.console_text()}')
            time.sleep(0.01)
        self.begin_life()
        return time.monotonic()

    @contextlib.contextmanager
    def paused(self):
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()


@contextlib.contextmanager
def unbroken():
    """No handler of a signal runs within."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Wire:
    """What the card of one guest sends those of all others get, or lose."""

    def __init__(self, folder, guests):
        self.folder, self.guests, self.sockets = folder, guests, []
        for number in range(guests):
            end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            end.bind(f'{folder}/wire{number}')
            self.sockets.append(end)
            threading.Thread(target=self.carry, args=(number,), daemon=True).start()

    def card(self, number):
        return ['-netdev', f'dgram,id=wire,local.type=unix,local.path={self.folder}/card{number},'
                f'remote.type=unix,remote.path={self.folder}/wire{number}',
                '-device', f'virtio-net-pci,romfile=,netdev=wire,mac=02:00:00:00:00:0{number + 1}{BUS}']

    def carry(self, number):
        while datagram := self.sockets[number].recv(1 << 16):
            for other in range(self.guests):
                if other != number:
                    with contextlib.suppress(OSError):  # it has not begun, has gone, or stands still
                        self.sockets[number].sendto(datagram, socket.MSG_DONTWAIT, f'{self.folder}/card{other}')

    def end(self):
        for one in self.sockets:
            one.shutdown(socket.SHUT_RDWR)


class Pcie:
    """The guests see the memory as BAR 2 of a PCIe device."""

    name, pool, mib, emulated = 'pcie', f'pci:{ADDRESS}', 512, False
    path = f'/sys/bus/pci/devices/{ADDRESS}/resource2'
    options = ['--atomics']  # of weft pool create
    machine = ['-M', 'q35', '-cpu', 'max,-erms,-fsrm']

    @staticmethod
    def qemu():
        return [tool('qemu-system-x86')]

    @staticmethod
    def device(memory):
        return ['-device', f'ivshmem-plain,memdev={memory},master=on,addr={SLOT}']


class Cxl:
    """The guests see the memory as the volatile one of a CXL device, of which lab/guest makes a device-dax. QEMU emulates each
    access, which KVM's processor cannot wait for with all of its instructions, and atomic ones do not hold between guests. The region
    is committed only where Linux does not know that a processor is emulated."""

    name, pool, mib, emulated = 'cxl', 'dax:/dev/dax0.0', 256, True
    path = '/dev/dax0.0'
    options = ['--coherent']
    machine = ['-M', 'q35,cxl=on,cxl-fmw.0.targets.0=cxl.0,cxl-fmw.0.size=4G', '-cpu', 'max,-erms,-fsrm,-hypervisor']

    @staticmethod
    def qemu():
        tools()  # its libraries
        at = fetched('qemu', fetch_qemu) / 'usr'
        # it looks for its firmware where it would be installed
        return [at / 'bin/qemu-system-x86_64', '-L', at / 'share/qemu', '-L', at / 'share/seabios']

    @staticmethod
    def device(memory):
        return ['-device', f'pxb-cxl,id=cxl.0,bus_nr=52{BUS}', '-device', 'cxl-rp,id=rp0,bus=cxl.0,chassis=0,port=0,slot=0',
                '-device', f'cxl-type3,bus=rp0,volatile-memdev={memory},id=cxl-mem0']


BACKINGS = {backing.name: backing for backing in (Pcie, Cxl)}


class Machines(contextlib.ExitStack):
    """Guests on one memory; `pool` is how Weft names that memory there. Bare ones have given it to nobody."""

    def __init__(self, backing='pcie', guests=2, emulated=False, reboots=False, bare=False):
        super().__init__()
        self.backing = BACKINGS[backing]
        self.pool, mib = self.backing.pool, self.backing.mib
        # a container's is often small
        shm = '/dev/shm' if shutil.disk_usage('/dev/shm').free > mib << 21 else None
        with unbroken():  # or a folder that was just made has no owner to remove it
            self.folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix='weft-lab-', dir=shm)))
        self.memory = self.folder / 'memory'
        with open(self.memory, 'wb') as file:
            file.truncate(mib << 20)
        initramfs(self.folder, next((kernel() / 'lib/modules').iterdir()))
        with unbroken():  # its threads leave signals to this one, which blocks them now and then
            wire, self.guests = Wire(self.folder, guests), []
        self.callback(wire.end)
        for number in range(guests):
            guest = Guest(self.folder, number, self.backing, [
                '-object', f'memory-backend-file,id=shared,mem-path={self.memory},size={mib}M,share=on',
                *self.backing.device('shared'), *wire.card(number)], emulated, reboots, bare)
            self.callback(guest.kill)
            self.guests.append(guest)

    def boot(self):
        for guest in self.guests:
            guest.boot()
        for guest in self.guests:
            guest.await_up()
        return self
