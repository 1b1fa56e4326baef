"""Datagrams and streams of every protocol, recorded from real clients and then damaged, at a server of all protocols."""

import collections
import os
import random
import selectors
import socket
import struct
import threading
import time

import rig
from rig import attack, must

DATAGRAMS = int(os.environ.get("NETCALIPER_ATTACK_DATAGRAMS", "60000"))
STREAMS = int(os.environ.get("NETCALIPER_ATTACK_STREAMS", "6000"))
# STAMP and UDPmon: an answer may be longer than its request, and is sent to hosts of the server's own networks alone (outside.py).
FENCED = {862, 14233}
EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]
CLIENTS = ["tcp -b 4M", "tcp -R -b 4M", "tcp --bidir -b 4M", "connect", "ping", "ping -u", "stream", "delay", "train",
           "tcp --protocol iperf3 -b 4M", "delay --protocol iperf3", "tcp --protocol ctstraffic -b 4M", "tcp --protocol ntttcp -p 5101 -b 4M",
           "tcp --protocol ttcp -b 4M", "tcp --protocol tcpmon", "train --protocol udpmon", "delay --protocol bwdelaytester",
           "ping --protocol echo", "ping --protocol stamp"]


class Recorder(threading.Thread):
    """Keeps the payload that clients send over the loopback interface, by the server's port."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.over = ports, False
        self.datagrams, self.streams = collections.defaultdict(list), {}
        self.link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.link.bind(("lo", 0))
        self.link.settimeout(0.3)

    def run(self):
        while not self.over:
            try:
                frame, source = self.link.recvfrom(70_000)
            except TimeoutError:
                continue
            if source[2] == socket.PACKET_OUTGOING or frame[12:14] != b"\x08\x00":
                continue
            begin = 14 + (frame[14] & 15) * 4
            here, there = struct.unpack("!HH", frame[begin:begin + 4])
            if there not in self.ports:
                continue
            if frame[23] == 17 and len(self.datagrams[there]) < 500:
                self.datagrams[there].append(frame[begin + 8:])
            elif frame[23] == 6:
                payload = frame[begin + (frame[begin + 12] >> 4) * 4:]
                pieces = self.streams.setdefault((here, there), {})
                if payload and len(pieces) < 40:
                    pieces.setdefault(struct.unpack("!I", frame[begin + 4:begin + 8])[0], payload[:4096])


def listening(server):
    """The ports of all protocols, from the process's own sockets."""
    inodes = set()
    for name in os.listdir(f"/proc/{server.process.pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{server.process.pid}/fd/{name}"))
        except OSError:
            pass
    ports = set()
    for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        with open(f"/proc/{server.process.pid}/net/{table}") as file:
            for line in file.readlines()[1:]:
                field = line.split()
                if field[3] == state and f"socket:[{field[9]}]" in inodes:
                    ports.add(int(field[1].rsplit(":", 1)[1], 16))
    return ports


def record(bind="127.0.0.1"):
    """A server of all protocols, and what clients of each have said to it."""
    if os.environ.get("NETCALIPER_ATTACKS_ALONE") != "1":
        raise rig.Skip("needs root, for a network namespace with the usual ports free")
    pages = ["--web=127.0.0.1:7480", "--metrics", "9100"] if rig.has_http() else []
    server = rig.Server("-p", "7411", "--legacy", "all", *pages, bind=bind)
    time.sleep(1)
    recorder = Recorder(listening(server))
    recorder.start()
    failed = []
    for words in CLIENTS:
        verb, *more = words.split()
        code, _, err = rig.client(verb, "127.0.0.1", *more, *([] if verb == "train" else ["-t", "1s"]), patience=30)
        if code != 0:
            failed.append((words, code, err[-100:]))
    must(not failed, f"clients before any damage: {failed}")
    recorder.over = True
    recorder.join()
    streams = collections.defaultdict(list)
    for (_, port), pieces in recorder.streams.items():
        if pieces:
            streams[port].append(b"".join(pieces[at] for at in sorted(pieces)))
    must(recorder.datagrams and streams, "nothing was recorded")
    return server, dict(recorder.datagrams), dict(streams)


def damaged(chance, data):
    data = bytearray(data or b"\0")
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        if not data:
            data += chance.randbytes(8)
        at = min(chance.randrange(len(data)), chance.choice((96, 1 << 20)))
        at = min(at, len(data) - 1)
        kind = chance.randrange(7)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at:at + chance.randrange(1, 64)]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randrange(1, 64))
        elif kind == 3:
            data = data[:at]
        elif kind == 4:
            layout = chance.choice(("!B", "!H", "!I", "!Q", "<H", "<I", "<Q"))
            number = struct.pack(layout, chance.choice(EDGES) & ((1 << 8 * struct.calcsize(layout)) - 1))
            data[at:at + len(number)] = number
        elif kind == 5:
            data += data[:chance.randrange(len(data) + 1)]
        else:
            data += chance.randbytes(chance.choice((1, 100, 1400, 9000)))
    return bytes(data[:60_000])


def good(server):
    """Clients of several protocols are served."""
    for words in (["tcp"], ["ping", "-u"], ["ping", "--protocol", "stamp"], ["tcp", "--protocol", "iperf3"]):
        code, out, err = rig.client(words[0], "127.0.0.1", *words[1:], "-t", "1s", patience=40)
        must(code == 0, f"afterwards {' '.join(words)} ends with {code}: {(err or out)[-300:]}")
    server.intact()


def bounded(server):
    """Memory and reports of damage stay small."""
    must(server.memory_mb() < 256, f"{server.memory_mb():.0f} MB")
    must(server.error_bytes() < 1_000_000, f"{server.error_bytes()} bytes on stderr")


@attack
def datagrams():
    """Damaged datagrams to every UDP port: no panic, memory bounded, little on stderr, no more bytes back than sent."""
    server, corpus, _ = record()
    corpus.setdefault(7, [b"x" * 64])
    chance, sources = random.Random(7), [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(64)]
    sent, back = collections.Counter(), collections.Counter()

    def drain():
        for source in sources:
            try:
                while True:
                    data, peer = source.recvfrom(70_000)
                    back[peer[1]] += len(data)
            except OSError:
                pass

    for source in sources:
        source.bind(("127.0.0.1", 0))
        source.setblocking(False)
        source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    ports = sorted(corpus)
    for n in range(DATAGRAMS):
        port = ports[n % len(ports)]
        data = damaged(chance, chance.choice(corpus[port]))
        try:
            sent[port] += chance.choice(sources).sendto(data, ("127.0.0.1", port))
        except OSError:
            pass
        if n % 200 == 199:
            drain()
            time.sleep(0.002)
    time.sleep(0.5)
    drain()
    for port in ports:
        must(port in FENCED or back[port] <= sent[port], f"port {port}: {back[port]} bytes back for {sent[port]}")
    good(server)
    bounded(server)
    return f"{DATAGRAMS} datagrams to {len(ports)} ports, {server.memory_mb():.0f} MB"


@attack
def streams():
    """Damaged streams to every TCP port, in pieces, cut by FIN, RST and half-close: the same."""
    rig.most_descriptors()
    server, _, corpus = record()
    chance, ready, live = random.Random(9), selectors.DefaultSelector(), {}
    ports, begun, done = sorted(corpus), 0, 0

    def close(link, how):
        nonlocal done
        if live.pop(link, None) is None:
            return
        ready.unregister(link)
        if how == "rst":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
        done += 1

    while done < STREAMS:
        while len(live) < 200 and begun < STREAMS:
            port = ports[begun % len(ports)]
            begun += 1
            whole = chance.choice(corpus[port])
            whole = damaged(chance, whole[:chance.choice((400, len(whole)))])
            link = socket.socket()
            link.setblocking(False)
            link.connect_ex(("127.0.0.1", port))
            live[link] = [whole, time.monotonic() + chance.choice((0.01, 0.05, 0.3)), chance.choice(("rst", "fin", "half"))]
            ready.register(link, selectors.EVENT_READ | selectors.EVENT_WRITE)
        for key, events in ready.select(0.02):
            link = key.fileobj
            state = live.get(link)
            if state is None:
                continue
            try:
                if events & selectors.EVENT_WRITE:
                    if state[0]:
                        state[0] = state[0][link.send(state[0][:chance.choice((1, 7, 64, 65536))]):]
                    else:
                        if state[2] == "half":
                            link.shutdown(socket.SHUT_WR)
                        ready.modify(link, selectors.EVENT_READ)
                if events & selectors.EVENT_READ and not link.recv(65536):
                    close(link, "fin")
            except BlockingIOError:
                pass
            except OSError:
                close(link, "fin")
        now = time.monotonic()
        for link in [link for link, state in live.items() if state[1] < now]:
            close(link, live[link][2])
        must(server.process.poll() is None, f"the server ended: {server.text()[-800:]}")
    time.sleep(12)
    good(server)
    bounded(server)
    return f"{STREAMS} streams to {len(ports)} ports, {server.memory_mb():.0f} MB, {server.descriptors()} descriptors"


@attack
def repeated():
    """Recorded streams and datagrams, sent again unchanged, twice."""
    server, datagrams, streams = record()
    for _ in range(2):
        for port, recorded in streams.items():
            for whole in recorded:
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
                        link.settimeout(0.05)
                        link.sendall(whole)
                        link.recv(1 << 16)
                except OSError:
                    pass
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            for port, recorded in datagrams.items():
                for data in recorded:
                    try:
                        source.sendto(data, ("127.0.0.1", port))
                    except OSError:
                        pass
    time.sleep(12)
    good(server)
    return f"{server.memory_mb():.0f} MB, {server.descriptors()} descriptors"
