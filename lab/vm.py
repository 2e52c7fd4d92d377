# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What virtual machines of the lab have in common: Debian's kernel, unpacked below .cache/lab, and this machine's
files; and several of them on one memory, as guests.

A guest takes commands by files in a folder that it shares with us: lab/guest runs what it finds there."""
import contextlib
import ctypes
import fcntl
import lzma
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LAB = Path(__file__).resolve().parent
CACHE = LAB.parent / '.cache/lab'
PACKAGE = 'linux-image-6.12-amd64'
# What the guest's first program needs to reach the files of this machine, in order.
FIRST_MODULES = ['netfs', '9pnet', '9pnet_virtio', '9p', 'overlay']
ADDRESS = '0000:00:10.0'  # of the device with the shared memory
SLOT = '10'
EMULATED = 'tcg,thread=multi'
BOOT_S, COMMAND_S = 900, 300  # emulated, on a machine with much other work


def out(*argv, **options):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options).stdout


def fetch_kernel(folder):
    name = re.search(r'Depends: (linux-image-\S+)', out('apt-cache', 'depends', PACKAGE))[1]
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        print(f'lab: fetching {name}', file=sys.stderr)
        out('apt-get', '-o', 'Acquire::http::Timeout=60', 'download', name, cwd=work)
        new = Path(work, 'new')
        out('dpkg', '-x', next(Path(work).glob('*.deb')), new)
        out('depmod', '-b', new, next((new / 'lib/modules').iterdir()).name)
        new.rename(folder)


def kernel():
    """The folder of the unpacked kernel package; fetched once, by one of those that want it."""
    folder = CACHE / 'kernel'
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / 'lock', 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                fetch_kernel(folder)
    return folder


def initramfs(folder, modules):
    """An archive of busybox, the first modules and lab/init, which is the guest's first program."""
    root = folder / 'root'
    for name in ('bin', 'modules', 'dev', 'proc', 'new'):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which('busybox'), root / 'bin')
    shutil.copy(LAB / 'init', root)
    for number, name in enumerate(FIRST_MODULES):
        packed = next(modules.rglob(f'{name}.ko.xz'))
        (root / f'modules/{number}.ko').write_bytes(lzma.decompress(packed.read_bytes()))
    names = ''.join(f'{p.relative_to(root)}\n' for p in sorted(root.rglob('*')))
    archive = folder / 'initramfs'
    with open(archive, 'wb') as file:
        subprocess.run(['cpio', '--quiet', '-o', '-H', 'newc'], cwd=root, input=names.encode(),
                       stdout=file, check=True)
    return archive


def accelerator():
    """KVM needs the processor's extensions: some hosts have a /dev/kvm without them, which fails."""
    flags = re.search(r'^flags.* (vmx|svm)\b', Path('/proc/cpuinfo').read_text(), re.M)
    return 'kvm' if flags and os.access('/dev/kvm', os.W_OK) else EMULATED


def share(tag, path, readonly):
    return ['-virtfs', f'local,path={path},mount_tag={tag},security_model=none,multidevs=remap'
            + (',readonly=on' if readonly else '')]


def die_with_parent():
    """In the guest's process: however this process ends, the guest ends with it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Trouble(Exception):
    """A guest, or a command in it, has failed; has the text of the console."""


class Command:
    """A shell command in a guest, begun."""

    def __init__(self, guest, number, line):
        self.guest, self.number, self.line = guest, number, line

    def file(self, kind):
        return self.guest.job / f'{self.number}.{kind}'

    def output(self):
        return self.file('out').read_text(errors='replace') if self.file('out').exists() else ''

    def is_over(self):
        return self.file('status').exists()

    def wait(self, seconds):
        """Its exit status and output; Trouble if it takes longer."""
        end = time.monotonic() + seconds
        while not self.is_over():
            self.guest.must_run()
            if time.monotonic() > end:
                raise Trouble(f'{self.guest.name}: not over after {seconds} s: {self.line}\n{self.output()}'
                              f'\n-- console\n{self.guest.console_text()}')
            time.sleep(0.05)
        return int(self.file('status').read_text()), self.output()

    def done(self, seconds):
        """Its output; Trouble unless it succeeds."""
        status, text = self.wait(seconds)
        if status:
            raise Trouble(f'{self.guest.name}: status {status}: {self.line}\n{text}')
        return text

    def kill(self):
        """It has ended when this returns."""
        if not self.is_over():
            self.guest.run('sh', '-c', f'kill -KILL $(cat /run/job/{self.number}.pid)', root=True, must_succeed=False)
            self.wait(COMMAND_S)


class Guest:
    """One virtual machine: `argv` is its share of QEMU's command line. Its address on the card is 192.0.2.NUMBER + 1."""

    def __init__(self, folder, number, argv, emulated=False):
        self.name, self.number = f'guest{number}', number
        self.job = folder / self.name
        self.job.mkdir()
        shutil.copy(LAB / 'guest', self.job / 'second')
        self.console = folder / f'{self.name}.console'
        self.commands = 0
        self.address = f'192.0.2.{number + 1}'
        base = kernel()
        modules = next((base / 'lib/modules').iterdir())
        self.argv = ['qemu-system-x86_64', '-M', 'q35', '-accel', EMULATED if emulated else accelerator(),
                     '-cpu', 'max,-erms,-fsrm', '-smp', '2',
                     '-m', '1G', '-display', 'none', '-nodefaults', '-no-reboot',
                     '-kernel', next((base / 'boot').glob('vmlinuz-*')), '-initrd', folder / 'initramfs',
                     '-append', 'console=ttyS0 panic=-1 quiet mitigations=off no_timer_check iomem=relaxed '
                     f'weft.second=/run/job/second weft.number={number}',
                     '-serial', f'file:{self.console}', '-device', 'virtio-rng-pci',
                     *share('host', '/', True), *share('modules', modules.parent, True),
                     *share('job', self.job, False), *argv]
        self.process = None

    def boot(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
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
        line = shlex.join(map(str, words))
        self.commands += 1
        command = Command(self, self.commands, line)
        text = ''.join(f'export {name}={shlex.quote(str(value))}\n' for name, value in env.items())
        user = '' if root else 'setpriv --reuid=65534 --regid=65534 --clear-groups '
        command.file('new').write_text(f'echo $$ >/run/job/{self.commands}.pid\n{text}cd {shlex.quote(os.getcwd())}\nexec {user}{line}\n')
        command.file('new').rename(command.file('run'))
        return command

    def run(self, *words, must_succeed=True, **options):
        command = self.start(*words, **options)
        return command.done(COMMAND_S) if must_succeed else command.wait(COMMAND_S)[1]

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def unbroken():
    """No handler of a signal runs within."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Machines(contextlib.ExitStack):
    """Guests on one memory, which each sees as BAR 2 of a PCIe device; `pool` is how Weft names that memory."""

    def __init__(self, guests=2, mib=512, emulated=False):
        super().__init__()
        self.pool = f'pci:{ADDRESS}'
        # a container's is often small
        shm = '/dev/shm' if shutil.disk_usage('/dev/shm').free > mib << 21 else None
        with unbroken():  # or a folder that was just made has no owner to remove it
            self.folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix='weft-lab-', dir=shm)))
        memory = self.folder / 'memory'
        with open(memory, 'wb') as file:
            file.truncate(mib << 20)
        initramfs(self.folder, next((kernel() / 'lib/modules').iterdir()))
        self.guests = []
        for number in range(guests):
            guest = Guest(self.folder, number, [
                '-object', f'memory-backend-file,id=shared,mem-path={memory},size={mib}M,share=on',
                '-device', f'ivshmem-plain,memdev=shared,master=on,addr={SLOT}', *self.card(number)],
                emulated)
            self.callback(guest.kill)
            self.guests.append(guest)

    def card(self, number):
        """Two guests have a wire between them: each sends datagrams to the other's socket."""
        return ['-netdev', f'dgram,id=wire,local.type=unix,local.path={self.folder}/wire{number},'
                f'remote.type=unix,remote.path={self.folder}/wire{1 - number}',
                '-device', f'virtio-net-pci,romfile=,netdev=wire,mac=02:00:00:00:00:0{number + 1}']

    def boot(self):
        for guest in self.guests:
            guest.boot()
        for guest in self.guests:
            guest.await_up()
        return self
