#!/usr/bin/env python3
"""A small iperf3 server and client, written from the description in docs/protocols/iperf3.md; Python's standard library only.

iperf3.py server [old] [split] [lose=N,N] [error=CODE] [vanish=params|run|streams|results] [then ...]
    Serves one client after the other on a port of its own, which it prints. `old` leaves out what versions before 3.2 did not
    say and sends states together; `split` sends everything byte by byte; `lose` skips numbers of datagrams that it sends;
    `error` refuses with a code; `vanish` hangs up at a point: in the run (`run`) the control connection only, or (`streams`) the
    data connections only, and the other ones once the client has ended them. `then` begins what the next client gets; the last is
    for all that follow. Prints what it counted, one JSON document per test.
iperf3.py client PORT KEY=VALUE ... [then ...]
    Runs one test with these parameters (`reverse=1 udp=1 time=1 len=1000 bandwidth=1000000`), and `then` the next one; prints the
    results of both, one JSON document per test.
"""
import json
import os
import selectors
import socket
import struct
import sys
import time

HELLO, REPLY = b"9876", b"6789"


def read(sock, n):
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_document(sock):
    (n,) = struct.unpack(">I", read(sock, 4))
    return json.loads(read(sock, n))


class Speaker:
    def __init__(self, sock, split=False):
        self.sock, self.split = sock, split
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, data):
        for piece in ([data[i:i + 1] for i in range(len(data))] if self.split else [data]):
            self.sock.sendall(piece)

    def document(self, value):
        text = json.dumps(value).encode()
        self.say(struct.pack(">I", len(text)) + text)


class Stream:
    """One stream, either end: what it moved."""

    def __init__(self, sock, sends, udp, size, rate, lose=()):
        self.sock, self.sends, self.udp, self.size, self.rate = sock, sends, udp, size, rate
        self.bytes = self.packets = self.lost = 0
        self.number = 0
        self.lose = set(lose)
        self.begun = time.monotonic()
        sock.setblocking(False)

    def due(self):
        if not self.rate:
            return 0
        return self.begun + (self.number if self.udp else self.bytes / self.size) * self.size * 8 / self.rate

    def send(self):
        if self.udp:
            self.number += 1
            if self.number in self.lose:
                return
            now = time.monotonic()
            head = struct.pack(">III", int(now), int(now % 1 * 1e6), self.number)
            self.bytes += self.sock.send(head + bytes(self.size - 12))
            self.packets = self.number
        else:
            self.bytes += self.sock.send(bytes(self.size))

    def receive(self):
        data = self.sock.recv(1 << 16)
        self.bytes += len(data)
        if self.udp and len(data) >= 16:
            (number,) = struct.unpack(">I", data[8:12])
            if number > self.packets:
                self.lost += number - self.packets - 1
                self.packets = number
            elif self.lost:
                self.lost -= 1
        return bool(data)


def run(streams, until):
    """Moves bytes until `until` says so."""
    selector = selectors.DefaultSelector()
    for stream in streams:
        selector.register(stream.sock, selectors.EVENT_WRITE if stream.sends else selectors.EVENT_READ, stream)
    while not until():
        for key, _ in selector.select(0.01):
            stream = key.data
            try:
                for _ in range(16):
                    if not stream.sends:
                        if not stream.receive():
                            selector.unregister(stream.sock)
                            break
                    elif stream.due() > time.monotonic():
                        break
                    else:
                        stream.send()
            except (BlockingIOError, ConnectionError):
                pass
        # A stream that sends can nearly always be written to, long before its next write is due.
        time.sleep(0.01)


def results(streams, seconds, old):
    lines = []
    for i, stream in enumerate(streams):
        line = {"id": 1 if i == 0 else i + 2, "bytes": stream.bytes, "retransmits": -1, "jitter": 0.0001,
                "errors": stream.lost, "packets": stream.packets}
        if not old:
            line.update({"omitted_errors": 0, "omitted_packets": 0, "start_time": 0, "end_time": seconds})
        lines.append(line)
    return {"cpu_util_total": 1.5, "cpu_util_user": 1e0, "cpu_util_system": 0.5, "sender_has_retransmits": -1,
            "streams": lines, "something": {"nobody": "knows"}}


def ready(sock):
    sock.setblocking(False)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        sock.setblocking(True)


def drain(socks):
    """Reads each to its end, so that the client has seen what was closed before these close."""
    for sock in socks:
        sock.setblocking(True)
        try:
            while sock.recv(1 << 16):
                pass
        except ConnectionError:
            pass


def serve_one(listener, udp, how):
    control, _ = listener.accept()
    talk = Speaker(control, "split" in how)
    cookie = read(control, 37)
    talk.say(b"\x09")
    ask = read_document(control)
    if how.get("vanish") == "params":
        return control.close()
    if "error" in how:
        talk.say(b"\xfe" + struct.pack(">ii", int(how["error"]), 0))
        return control.close()
    talk.say(b"\x0a")
    n = ask.get("parallel", 1)
    both, reverse = ask.get("bidirectional", False), ask.get("reverse", False)
    streams = []
    lose = [int(x) for x in how.get("lose", "").split(",") if x]
    for i in range(n * (2 if both else 1)):
        sends = i >= n if both else reverse
        if ask.get("udp"):
            hello, peer = udp.recvfrom(65535)
            assert hello == HELLO, hello
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(udp.getsockname())
            sock.connect(peer)
            sock.send(REPLY)
        else:
            sock, _ = listener.accept()
            assert read(sock, 37) == cookie
        streams.append(Stream(sock, sends, bool(ask.get("udp")), ask["len"], ask.get("bandwidth", 0), lose))
    if "old" in how:
        talk.say(b"\x01\x02")
    else:
        talk.say(b"\x01")
        talk.say(b"\x02")
    began = time.monotonic()
    for stream in streams:
        stream.begun = began
    if how.get("vanish") == "run":
        control.close()
        return drain([stream.sock for stream in streams])
    if how.get("vanish") == "streams":
        for stream in streams:
            stream.sock.close()
        return drain([control])
    run(streams, lambda: ready(control))
    assert read(control, 1) == b"\x04"
    seconds = time.monotonic() - began
    # As the original: what it sends on is closed now.
    for stream in streams:
        if not stream.udp and stream.sends:
            stream.sock.close()
    talk.say(b"\x0d")
    theirs = read_document(control)
    if how.get("vanish") == "results":
        return control.close()
    ours = results(streams, seconds, "old" in how)
    text = json.dumps(ours).encode()
    talk.say(struct.pack(">I", len(text)) + text + (b"\x0e" if "old" in how else b""))
    if "old" not in how:
        talk.say(b"\x0e")
    assert read(control, 1) == b"\x10"
    control.close()
    print(json.dumps({"asked": ask, "ours": ours, "theirs": theirs}), flush=True)


def each(words):
    """The words of one test after the other."""
    return [part.split() for part in " ".join(words).split(" then ")]


def serve(words):
    hows = [dict((word.split("=", 1) + [""])[:2] for word in part) for part in each(words)]
    while True:
        listener = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            udp.bind(listener.getsockname())
            break
        except OSError:
            listener.close()
    print("port", listener.getsockname()[1], flush=True)
    while True:
        how = hows.pop(0) if len(hows) > 1 else hows[0]
        try:
            serve_one(listener, udp, how)
        except (EOFError, ConnectionError) as error:
            print(json.dumps({"error": repr(error)}), flush=True)


def client(port, words):
    ask = {"omit": 0, "time": 1, "num": 0, "blockcount": 0, "parallel": 1, "len": 1000, "client_version": "peer"}
    for word in words:
        key, value = word.split("=", 1)
        ask[key] = int(value)
    for flag in ("udp", "reverse", "bidirectional"):
        if ask.pop(flag, 0):
            ask[flag] = True
    udp = ask.get("udp", False)
    if not udp:
        ask["tcp"] = True
    to = ("127.0.0.1", int(port))
    control = socket.create_connection(to)
    talk = Speaker(control)
    cookie = os.urandom(18).hex().encode() + b"\0"
    talk.say(cookie)
    assert read(control, 1) == b"\x09"
    talk.document(ask)
    assert read(control, 1) == b"\x0a"
    n, both = ask["parallel"], ask.get("bidirectional", False)
    streams = []
    for i in range(n * (2 if both else 1)):
        sends = i < n if both else not ask.get("reverse", False)
        if udp:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.connect(to)
            sock.send(HELLO)
            assert sock.recv(65535) == REPLY
            # Said again, as if the answer had been lost: it is no datagram of the test. Behind the last stream the test
            # may have begun.
            if i + 1 < n * (2 if both else 1):
                sock.send(HELLO)
                assert sock.recv(65535) == REPLY
        else:
            sock = socket.create_connection(to)
            sock.sendall(cookie)
        streams.append(Stream(sock, sends, udp, ask["len"], ask.get("bandwidth", 0)))
    assert read(control, 2) == b"\x01\x02"
    began = time.monotonic()
    for stream in streams:
        stream.begun = began
    run(streams, lambda: time.monotonic() - began >= ask["time"])
    talk.say(b"\x04")
    assert read(control, 1) == b"\x0d"
    ours = results(streams, time.monotonic() - began, False)
    talk.document(ours)
    theirs = read_document(control)
    assert read(control, 1) == b"\x0e"
    talk.say(b"\x10")
    assert control.recv(1) == b""
    print(json.dumps({"ours": ours, "theirs": theirs}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(sys.argv[2:])
    else:
        for part in each(sys.argv[3:]):
            client(sys.argv[2], part)
