"""No client moves more than a server's limits, at any port, in any protocol, over any number of processes."""

import contextlib
import re
import subprocess
import time

import rig
from every import EveryPort, close_all
from rig import attack, must

RATE, BYTES = 10e6, 1 << 20
# The receive buffer of a connection, bytes, of the kernel's largest: what was received may have filled it.
BUFFER = 256 << 10
# Clients of ctsTraffic and ttcp connect again and again, and each connection has a buffer until it is reset.
BUFFERS = 48 * BUFFER

# The questions that move most, by protocol, without their length; with those that are not paced but refused, because they are
# datagrams without an agreement.
GREEDY = {
    "native": ["tcp -P 4", "tcp -P 4 -R", "tcp -P 2 --pattern duplex", "ping --flood -l 60000 --no-baseline",
               "ping -u --flood -l 1400 --no-baseline", "delay -b 0 -R", "delay -b 0"],
    "iperf3": ["tcp --protocol iperf3 -P 4", "tcp --protocol iperf3 -P 4 -R", "delay --protocol iperf3 -b 500M -R"],
    "ctstraffic": ["tcp --protocol ctstraffic -P 4"],
    "ttcp": ["tcp --protocol ttcp -P 4"],
    "ntttcp": ["tcp --protocol ntttcp -P 4"],
    "tcpmon": ["tcp --protocol tcpmon -P 1"],
    "echo": ["ping --protocol echo --flood -l 60000"],
    "discard": ["tcp --protocol discard -P 4"],
    "chargen": ["tcp --protocol chargen -R -P 4"],
}


class Path:
    """Two namespaces: the server's is this one, and each direction between them is counted."""

    V4, V6 = "10.77.1.1", "fd77::1"

    def __init__(self):
        self.peer = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
        rig.RUNNING.append(self.peer)
        self.inside = ["nsenter", "-t", str(self.peer.pid), "-n"]
        time.sleep(0.2)
        subprocess.run(["ip", "link", "del", "attacked"], capture_output=True, check=False)
        peer = f"{self.peer.pid}"
        for line in (f"ip link add attacked type veth peer name attacker netns {peer}", "ip link set attacked up",
                     "ip addr add 10.77.1.1/24 dev attacked", "ip addr add fd77::1/64 dev attacked nodad"):
            subprocess.run(line.split(), check=True)
        for line in ("ip link set attacker up", "ip link set lo up", "ip addr add 10.77.1.2/24 dev attacker",
                     "ip addr add 10.77.1.3/24 dev attacker", "ip addr add fd77::2/64 dev attacker nodad",
                     "ip addr add fd77::3/64 dev attacker nodad"):
            subprocess.run([*self.inside, *line.split()], check=True)
        for name in ("rmem", "wmem"):
            with open(f"/proc/sys/net/ipv4/tcp_{name}", "w") as file:
                file.write(f"4096 {BUFFER // 2} {BUFFER}")

    @contextlib.contextmanager
    def counted(self):
        """Bytes that the server sent, and received, meanwhile."""
        moved = []
        before = [self.count(way) for way in ("tx", "rx")]
        yield moved
        moved.extend(self.count(way) - start for way, start in zip(("tx", "rx"), before))

    @staticmethod
    def count(way):
        return rig.device_bytes("attacked", way)


def greedy(path, every, length, check):
    """Asks every protocol's server for as much as can be had; `check` gets the question, the exit code, the seconds, and the bytes."""
    for name, questions in GREEDY.items():
        for question in questions:
            verb, *more = question.split()
            began = time.monotonic()
            with path.counted() as moved:
                code, out, err = rig.client(verb, every.at(name), *more, "-t", length, "-q", patience=40, before=path.inside)
            check(f"{name}: {question}", code, time.monotonic() - began, moved, err or out)
            # The server remembers a client that was refused for three seconds.
            time.sleep(3.2)


def limited(path, *words, bind=Path.V4):
    return EveryPort(4_096, *words, bind=bind)


def both(function):
    """The attack on a server without, and with worker processes: more of them than connections of some questions."""
    told = []
    for words in ((), ("--processes", "3")):
        told.append(function(Path(), words))
        rig.end_all()
    return f"{told[0]}; with worker processes {told[1]}"


@attack
def rate_and_time_of_every_protocol():
    """Every protocol's greediest questions at --max-rate 10M --max-time 1s: sent at most 1.1 of that; received, and the buffers."""
    def run(path, words):
        every = limited(path, "--max-rate", "10M", "--max-time", "1s", *words)
        most, whole = {"sent": 0, "received": 0}, RATE / 8

        def check(question, code, took, moved, said):
            sent, received = moved
            ratio = sent / whole
            must(ratio <= 1.1, f"{question}: {ratio:.2f} of the limit was sent: {said[-200:]}")
            must(received <= 1.1 * whole + BUFFERS, f"{question}: {received} bytes were received: {said[-200:]}")
            must(max(sent, received) > 0.3 * whole, f"{question}: {sent} and {received} bytes moved ({code}): {said[-300:]}")
            must(took < 12, f"{question}: ended after {took:.1f} s")
            most["sent"] = max(most["sent"], ratio)
            most["received"] = max(most["received"], received / whole)

        # A client that was ended and is silent for a second begins another test.
        greedy(path, every, "2s", check)
        every.server.intact()
        every.clients({"native"})
        return f"at most {most['sent']:.2f} sent, {most['received']:.2f} received with buffers"
    return both(run)


@attack
def bytes_of_every_protocol():
    """The same at --max-bytes 1Mi: no protocol moves more, and a native client ends as partial."""
    def run(path, words):
        every = limited(path, "--max-bytes", "1Mi", *words)
        most = [0]

        def check(question, code, took, moved, said):
            sent, received = moved
            most[0] = max(most[0], sent / BYTES)
            must(sent <= 1.1 * BYTES, f"{question}: {sent} bytes were sent: {said[-200:]}")
            # The client floods until it learns its end; a datagram that is not received is no byte that was served.
            if "delay" not in question and "-u" not in question:
                must(received <= 1.1 * BYTES + BUFFERS, f"{question}: {received} bytes were received: {said[-200:]}")
            must(took < 12, f"{question}: ended after {took:.1f} s")
            if question.startswith("native"):
                must(code == 4, f"{question}: ended with {code}: {said[-300:]}")

        greedy(path, every, "1s", check)
        every.server.intact()
        return f"at most {most[0]:.2f} sent"
    return both(run)


@attack
def all_clients_together():
    """Two clients at --max-total-rate 10M, of two addresses and families: together at most 1.1 of it, one alone at least 0.85."""
    def run(path, words):
        every = limited(path, "-p", "7411", "-B", Path.V6, "--max-total-rate", "10M", *words)
        port, told = every.ports["native"], []
        for addresses in ([Path.V4], [Path.V4, f"[{Path.V6}]"]):
            began = time.monotonic()
            with path.counted() as moved:
                clients = [rig.start("tcp", f"{address}:{port}", "-R", "-P", "4", "-t", "4s", before=path.inside)
                           for address in addresses]
                ends = [rig.end(client) for client in clients]
            took = time.monotonic() - began
            must(all(code == 0 for code, _, _ in ends), f"{[end[0] for end in ends]}: {ends[0][2][-300:]}")
            must(moved[0] <= 1.1 * RATE / 8 * took, f"{len(clients)} clients got {moved[0]} bytes in {took:.1f} s")
            must(moved[0] >= 0.85 * RATE / 8 * 4, f"{len(clients)} clients got {moved[0]} bytes in 4 s")
            told.append(f"{moved[0] * 8 / 4 / RATE:.2f}")
            time.sleep(0.5)
        return f"{told[0]} of the limit alone, {told[1]} by two"
    return both(run)


@attack
def one_network_of_ipv6():
    """Two addresses of one network of 64 bits at --max-address-rate 10M are one address, over native and chargen together."""
    def run(path, words):
        every = limited(path, "--max-address-rate", "10M", *words, bind=Path.V6)
        began = time.monotonic()
        with path.counted() as moved:
            first = rig.start("tcp", every.at("native"), "-R", "-t", "3s", "-q", "--bind", "fd77::2", before=path.inside)
            other = rig.start("tcp", every.at("chargen"), "--protocol", "chargen", "-R", "-t", "3s", "-q", "--bind", "fd77::3",
                              before=path.inside)
            ends = [rig.end(first), rig.end(other)]
        took = time.monotonic() - began
        must(all(code in (0, 4) for code, _, _ in ends), f"{ends}")
        must(moved[0] <= 1.1 * RATE / 8 * took, f"{moved[0]} bytes in {took:.1f} s")
        return f"{moved[0] * 8 / 3 / RATE:.2f} of the limit"
    return both(run)


# Datagrams that a server answers, or counts, without an agreement: the service as its line names it.
ANSWERED = ("echo", "stamp", "udpmon", "discard", "chargen")


@attack
def floods_of_datagrams():
    """A flood at each port of datagrams at --max-rate 10M: answers stay below 1.1 of it, and the peer is refused by name."""
    def run(path, words):
        every = limited(path, "--max-rate", "10M", *words)
        text, told = every.server.text(), []
        flood = ("import socket, sys, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.setblocking(False)\n"
                 "s.connect((sys.argv[1], int(sys.argv[2])))\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n"
                 "    try:\n        s.send(bytes(1400))\n    except OSError:\n        pass\n")
        for name in ANSWERED:
            found = re.search(rf"(?m)^ *{name} +[^ ]*:(\d+)", text)
            if not found:
                continue
            with path.counted() as moved:
                subprocess.run([*path.inside, "python3", "-c", flood, Path.V4, found.group(1)], check=True)
            must(moved[0] <= 1.1 * RATE / 8 * 2, f"{name}: {moved[0]} bytes were answered to {moved[1]}")
            told.append(f"{name} {moved[0] / max(moved[1], 1):.3f}")
            time.sleep(3.2)
        every.server.intact()
        every.server.hears("refused: its datagrams")
        return f"bytes back for bytes: {', '.join(told)}"
    return both(run)


def kernel_memory_mb():
    with open("/proc/net/sockstat") as file:
        return int(re.search(r"TCP: .* mem (\d+)", file.read()).group(1)) * 4 / 1024


@attack
def readers_that_never_read():
    """2,000 connections to chargen that never read: 256 have a place, and the kernel's memory stays below 1 MB for each."""
    every = EveryPort(4_096, needs=3_000)
    before, links = kernel_memory_mb(), []
    for n in range(2_000):
        # The kernel's figure has both ends: what arrives here is to be little.
        links.append(rig.silent(f"127.0.9.{n % 50 + 1}", every.ports["chargen"], buffer=4_096))
        if n % 50 == 49:
            time.sleep(0.05)
    most = 0
    for _ in range(40):
        time.sleep(0.1)
        most = max(most, kernel_memory_mb() - before)
    own = every.server.memory_mb()
    close_all(links)
    must(most < 256 and own < 256, f"{most:.0f} MB of the kernel, {own:.0f} MB of the server")
    every.clients({"native", "chargen"})
    return f"{most:.0f} MB of the kernel, {own:.0f} MB of the server"
