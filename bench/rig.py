"""The machine that bench/run measures on: its load, network namespaces, memory limits, and processes that do not outlive us."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1


class Skip(Exception):
    """Something cannot be run here; the text says why."""


def machine_busy():
    """CPU seconds that the machine has been busy since it was started: user, nice, system, irq, softirq."""
    with open("/proc/stat") as f:
        t = [int(x) for x in f.readline().split()[1:]]
    return (t[0] + t[1] + t[2] + t[5] + t[6]) / TICK


def load(seconds=0.4):
    """The part of the machine, 0 to 1, that is busy now. Half a second is not much, but a build shows."""
    before, begun = machine_busy(), time.monotonic()
    time.sleep(seconds)
    return (machine_busy() - before) / (time.monotonic() - begun) / CPUS


class Quiet:
    """Waits until others leave the machine alone."""

    def __init__(self, limit, patience):
        self.limit, self.patience = limit, patience

    def wait(self):
        """The load that was there when waiting ended, and whether it was low enough."""
        begun = time.monotonic()
        while True:
            now = load()
            if now <= self.limit:
                return now, True
            if time.monotonic() - begun >= self.patience:
                return now, False
            time.sleep(1)


class Account:
    """Counts the CPU time of everything started in it (cgroup v1 cpuacct), so that what others took meanwhile is known."""

    ROOT = "/sys/fs/cgroup/cpuacct"

    def __init__(self):
        self.path = None
        path = f"{self.ROOT}/ncbench-{os.getpid()}"
        try:
            os.mkdir(path)
            self.path = path
        except OSError:
            pass

    def enter(self):
        """Between fork and exec."""
        if self.path:
            with open(f"{self.path}/cgroup.procs", "w") as f:
                f.write("0")

    def seconds(self):
        """CPU seconds so far; None where there is no such cgroup."""
        if not self.path:
            return None
        with open(f"{self.path}/cpuacct.usage") as f:
            return int(f.read()) / 1e9

    def remove(self):
        remove_cgroup(self.path)


class MemoryLimit:
    """A cgroup v1 memory limit."""

    ROOT = "/sys/fs/cgroup/memory"

    def __init__(self, name, limit):
        self.path = f"{self.ROOT}/ncbench-{os.getpid()}-{name}"
        try:
            os.mkdir(self.path)
            self._write("memory.limit_in_bytes", limit)
        except OSError as e:
            remove_cgroup(self.path)
            raise Skip(f"no memory limit can be set at {self.ROOT}: {e.strerror}") from e

    def _write(self, name, value):
        with open(f"{self.path}/{name}", "w") as f:
            f.write(str(value))

    def read(self, name):
        with open(f"{self.path}/{name}") as f:
            return int(f.read().split()[0])

    def enter(self):
        self._write("cgroup.procs", 0)

    def remove(self):
        remove_cgroup(self.path)


def remove_cgroup(path):
    for _ in range(50):
        try:
            if path and os.path.isdir(path):
                os.rmdir(path)
            return
        except OSError:
            time.sleep(0.05)


class Place:
    """Where the two ends run: prefixes for their commands and the server's address."""

    def __init__(self, name, server, client, address):
        self.name, self.server, self.client, self.address = name, server, client, address


class Namespaces:
    """One namespace with only a loopback interface, and two that are joined by a veth pair (MTU 1500, defaults)."""

    def __init__(self):
        self.names = [f"ncb{os.getpid()}{x}" for x in "lab"]
        self.error = None
        self.made = False

    def make(self):
        if self.made or self.error:
            return
        lo, a, b = self.names
        try:
            if os.geteuid() != 0 or not shutil.which("ip"):
                raise Skip("needs root and the ip command")
            for name in self.names:
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            # getaddrinfo with AI_ADDRCONFIG (netperf) wants an address that is not loopback's.
            _ip("-n", lo, "address", "add", "10.213.7.9/32", "dev", "lo")
            _ip("link", "add", "ncbv0", "netns", a, "type", "veth", "peer", "name", "ncbv1", "netns", b)
            for name, dev, address in (a, "ncbv0", "10.213.7.1/30"), (b, "ncbv1", "10.213.7.2/30"):
                _ip("-n", name, "address", "add", address, "dev", dev)
                _ip("-n", name, "link", "set", dev, "up")
            self.made = True
        except (Skip, subprocess.CalledProcessError) as e:
            self.error = getattr(e, "stderr", None) or str(e)
            self.remove()

    def place(self, where):
        """`lo` (the host's own loopback interface where namespaces cannot be made) or `veth`."""
        self.make()
        lo, a, b = self.names
        if where == "lo":
            prefix = ["ip", "netns", "exec", lo] if self.made else []
            return Place("lo", prefix, prefix, "127.0.0.1")
        if not self.made:
            raise Skip(f"no network namespaces: {self.error}")
        return Place("veth", ["ip", "netns", "exec", b], ["ip", "netns", "exec", a], "10.213.7.2")

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        self.made = False


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def niceness(number):
    """A step between fork and exec: takes this scheduling priority."""

    def step():
        if number:
            os.setpriority(os.PRIO_PROCESS, 0, number)

    return step


@contextlib.contextmanager
def group_niceness(number):
    """Every session is a scheduling group, and what counts between groups is the group's priority: ours is this one meanwhile."""
    path, before = "/proc/self/autogroup", None
    try:
        if number:
            with open(path) as f:
                before = f.read().split()[-1]
            with open(path, "w") as f:
                f.write(str(number))
    except OSError:
        before = None
    try:
        yield
    finally:
        if before is not None:
            with open(path, "w") as f:
                f.write(before)


class Process:
    """A command with its output in files, in a process group of its own, so that all of it can be ended.

    In a session of its own it would be a scheduling group as well, beside that of the other end. The bare loop has both ends in one
    process, and so both ends of every program are in one such group: that of the caller."""

    running = set()

    def __init__(self, argv, enter=()):
        self.argv = [str(a) for a in argv]
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()

        def prepare():
            os.setpgid(0, 0)
            for step in enter:
                step()

        self.popen = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, preexec_fn=prepare
        )
        self.pid = self.popen.pid
        Process.running.add(self)

    def wait(self, timeout):
        """The exit code; after `timeout` seconds the process is killed and the code is None."""
        try:
            code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.popen.wait()
            code = None
        Process.running.discard(self)
        return code

    def end(self, grace=3.0):
        """SIGTERM, then SIGKILL."""
        if self.popen.poll() is None:
            self._signal(signal.SIGTERM)
        return self.wait(grace)

    def alive(self):
        return self.popen.poll() is None

    def _signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def text(self):
        return self._read(self.out)

    def errors(self):
        return self._read(self.err)

    @staticmethod
    def _read(f):
        f.seek(0)
        return f.read().decode(errors="replace")

    def has(self, port, tables, state):
        """Whether a process in this network namespace has a socket in this state at `port`."""
        for table in tables:
            try:
                with open(f"/proc/{self.pid}/net/{table}") as f:
                    for line in f.readlines()[1:]:
                        field = line.split()
                        if field[3] == state and int(field[1].rsplit(":", 1)[1], 16) == port:
                            return True
            except OSError:
                return False
        return False

    def await_listening(self, port, patience=5.0):
        self._await(lambda: self.has(port, ("tcp", "tcp6"), "0A"), patience)

    def await_bound(self, port, patience=5.0):
        """The same for a UDP socket."""
        self._await(lambda: self.has(port, ("udp", "udp6"), "07"), patience)

    def _await(self, there, patience):
        end = time.monotonic() + patience
        while time.monotonic() < end and self.alive():
            if there():
                return
            time.sleep(0.01)
        raise Skip(f"{os.path.basename(self.argv[0])} did not listen: {(self.errors() or self.text()).strip()[:200]}")

    def status(self, field):
        """A field of /proc/PID/status in bytes or as a number; None when the process has gone."""
        try:
            with open(f"/proc/{self.pid}/status") as f:
                for line in f:
                    if line.startswith(field + ":"):
                        words = line.split()
                        return int(words[1]) * (1024 if words[-1] == "kB" else 1)
        except OSError:
            pass
        return None

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0

    @staticmethod
    def end_all():
        for process in list(Process.running):
            process._signal(signal.SIGKILL)
            process.popen.wait()
        Process.running.clear()
