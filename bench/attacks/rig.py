"""What all attacks need: a server, clients, the first words of the native protocol, and verdicts."""

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("NETCALIPER", os.path.join(ROOT, "target/release/netcaliper"))
SCRATCH = tempfile.TemporaryDirectory(prefix="attacks-")
RUNNING = []


class Failed(Exception):
    """The attack succeeded."""


class Skip(Exception):
    """The attack cannot be run here."""


def attack(function):
    function.is_attack = True
    return function


def must(holds, text):
    if not holds:
        raise Failed(text)


def environment(**more):
    keep = {key: value for key, value in os.environ.items() if not key.startswith("NETCALIPER_")}
    return dict(keep, HOME=SCRATCH.name, NETCALIPER_STORE="off", **more)


def most_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Server:
    """A `netcaliper serve` at a port of its own choice; `at` is where it listens."""

    def __init__(self, *words, before=(), bind="127.0.0.1", **env):
        self.folder = tempfile.mkdtemp(dir=SCRATCH.name)
        self.out, self.err = os.path.join(self.folder, "out"), os.path.join(self.folder, "err")
        port = [] if "-p" in words else ["-p", "0"]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen([*before, PROGRAM, "serve", "-B", bind, *port, *words], stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL, env=environment(**env))
        RUNNING.append(self.process)
        self.port = int(self.hears(r"listening on [^ ]*:(\d+)").group(1))
        self.at = f"127.0.0.1:{self.port}"

    def hears(self, pattern, patience=15):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = re.search(pattern, self.text())
            if found:
                return found
            must(self.process.poll() is None, f"the server ended: {self.text()[-500:]}")
            time.sleep(0.02)
        raise Failed(f"the server never said {pattern!r}: {self.text()[-500:]}")

    def text(self):
        text = ""
        for path in (self.out, self.err):
            with open(path, errors="replace") as file:
                text += file.read()
        return text

    def error_bytes(self):
        return os.path.getsize(self.err)

    def memory_mb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def still_serves(self, patience=20, words=(), **env):
        code, out, err = client("ping", self.at, "-n", "3", *words, patience=patience, **env)
        must(code == 0, f"a good client ends with {code}: {(err or out)[-300:]}")

    def intact(self):
        """The process lives and no thread of it has panicked."""
        must(self.process.poll() is None, f"the server ended: {self.text()[-800:]}")
        must("panicked" not in self.text(), f"a thread panicked: {self.text()[-800:]}")


def start(*words, before=(), **env):
    process = subprocess.Popen([*before, PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, env=environment(**env), text=True, errors="replace")
    RUNNING.append(process)
    return process


def end(process, patience=60):
    """Exit code (None when it had to be killed), stdout, stderr."""
    try:
        out, err = process.communicate(timeout=patience)
        code = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        code = None
    return code, out, err


def client(*words, patience=60, before=(), **env):
    return end(start(*words, before=before, **env), patience)


def has_http():
    """Whether the program was built with the feature `http`."""
    return "without HTTP" not in client("serve", "-B", "127.0.0.1", "-p", "0", "--metrics", "0", patience=2)[2]


# Headers of a packet over Ethernet, TCP with timestamps.
HEADERS = 66


def device_bytes(name, way):
    """Bytes behind the headers that a network device of this namespace has sent (tx) or received (rx)."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith(f"{name}:"))
    count, packets = map(int, line.split(":")[1].split()[8 if way == "tx" else 0:][:2])
    return count - packets * HEADERS


def goodput(document):
    """The worse direction's goodput of a run's JSON, bit/s."""
    point = json.loads(document)["points"][-1]
    return min(side["goodput_bps"] for side in (point["up"], point["down"]) if side and side.get("goodput_bps") is not None)


def end_all():
    for process in RUNNING:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    RUNNING.clear()


# ---- the native protocol ------------------------------------------------------------------------------------------------

WIRE_VERSION = int(re.search(r"WIRE_VERSION: u16 = (\d+)", "".join(
    open(os.path.join(folder, name)).read() for folder, _, names in os.walk(os.path.join(ROOT, "crates/protocols/native/src"))
    for name in names if name.endswith(".rs"))).group(1))
CONTROL, DATA, HELLO = 1, 2, 3


def fnv1a(data):
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def preamble(purpose=CONTROL, version=WIRE_VERSION, session=0, number=0, identity=bytes(16), transfer=0, seal=bytes(16)):
    head = b"\x8eNETCAL\n" + struct.pack("!HBBIQQ", version, purpose, 0, 0, session, number) + identity + struct.pack("!Q", transfer)
    head += seal + bytes(4)
    return head + struct.pack("!I", fnv1a(head))


def message(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    return struct.pack("!I", len(text)) + text


def exactly(link, count):
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def heard(link):
    """The next message, or None when the connection ends."""
    try:
        return json.loads(exactly(link, struct.unpack("!I", exactly(link, 4))[0]))
    except (OSError, ValueError):
        return None


def control(port, patience=10):
    link = socket.create_connection(("127.0.0.1", port), timeout=patience)
    link.sendall(preamble())
    return link


def hello(link, **more):
    """Says hello and returns our nonce and the server's hello."""
    nonce = os.urandom(16).hex()
    link.sendall(message({"type": "hello", "version": "0", "nonce": nonce, "key": False, **more}))
    return nonce, heard(link)


def silent(source, port, buffer=None):
    """A connection from this address that says nothing, with a receive buffer of so many bytes; it is established later or never."""
    link = socket.socket()
    if buffer:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    link.setblocking(False)
    link.bind((source, 0))
    link.connect_ex(("127.0.0.1", port))
    return link
