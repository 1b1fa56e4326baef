#!/usr/bin/env python3
"""Either end of UDPSTP (RFC 9946), written from a description of its PDUs; Python's standard library only. One connection, row 1 of the
table of rates (1 Mbit/s) as a server.

udpstp.py client PORT up|down SECONDS [key=KEY]
    A test against 127.0.0.1:PORT. Prints JSON: code of the set-up and of the activation, datagrams sent and received, numbers missing.
udpstp.py server [key=KEY]
    Prints its port, serves one test in either direction, and prints the same.
"""
import hashlib
import hmac
import json
import random
import socket
import struct
import sys
import time

SETUP, ACTIVATION, LOAD, STATUS = 0xACE1, 0xACE2, 0xBEEF, 0xFEED
ROW = struct.pack(">7I", 0, 0, 0, 1000, 0, 0, 97)


def keys(shared, seconds):
    def derive(i):
        return hmac.digest(shared, struct.pack(">I", i) + b"UDPSTP\0" + str(seconds).encode() + struct.pack(">I", 512), hashlib.sha256)
    return derive(1), derive(2)


def signed(pdu, at, key, seconds):
    """The PDU with mode, time and digest at an offset."""
    pdu = bytearray(pdu)
    if key:
        pdu[at] = 1
        pdu[at + 1:at + 5] = struct.pack(">I", seconds)
        pdu[at + 5:at + 37] = hmac.digest(key, bytes(pdu), hashlib.sha256)
    return bytes(pdu)


def is_signed(pdu, at, key):
    blank = bytearray(pdu)
    blank[at + 5:at + 37] = bytes(32)
    return not key or hmac.compare_digest(pdu[at + 5:at + 37], hmac.digest(key, bytes(blank), hashlib.sha256))


def moment(now=None):
    now = time.time_ns() if now is None else now
    return struct.pack(">II", now // 10**9, now % 10**9)


class Test:
    """The data of a test: sends load of one row, or receives it and reports."""

    def __init__(self, sock, peer, sends, serves, seconds):
        self.sock, self.peer, self.sends, self.serves = sock, peer, sends, serves
        self.end = time.monotonic() + seconds + (0.5 if serves else 3.5)
        self.number, self.echo, self.heard = 0, bytes(8), 0
        self.sent = self.received = self.missing = 0
        self.next, self.trial, self.status = 1, [0, 0, 0], 0
        self.interval, self.load = 0.05, ROW

    def send_load(self, action):
        size = struct.unpack(">7I", self.load)[6] & 0x7FFFFFFF or 97
        self.number += 1
        waited = (time.time_ns() - self.heard) // 10**6 if self.heard else 0
        head = struct.pack(">HBBIHH", LOAD, action, 0, self.number, size, 0) + self.echo + moment()
        self.sock.sendto((head + struct.pack(">HH", min(waited, 65535), 0)).ljust(size, b"\0"), self.peer)
        self.sent += 1

    def send_status(self, action):
        self.status += 1
        pdu = bytearray(204)
        pdu[:8] = struct.pack(">HBBI", STATUS, action, 0, self.status)
        if self.serves:
            pdu[8:36] = ROW
        struct.pack_into(">I", pdu, 96, self.trial[2])
        struct.pack_into(">II", pdu, 112, 0, 0)
        struct.pack_into(">II", pdu, 128, 0, 0)
        struct.pack_into(">III", pdu, 140, 50_000, self.trial[0], self.trial[1])
        pdu[152:160] = moment()
        self.trial = [0, 0, 0]
        self.sock.sendto(bytes(pdu), self.peer)

    def hear(self, pdu):
        """True if the other end says stop."""
        kind, action = struct.unpack(">HB", pdu[:3])
        if kind == LOAD and not self.sends:
            number, size = struct.unpack(">IH", pdu[4:10])
            assert size == len(pdu)
            if action == 0:
                lost = max(0, number - self.next)
                self.missing += lost
                self.next = max(self.next, number + 1)
                self.received += 1
                self.trial = [self.trial[0] + 1, self.trial[1] + size, self.trial[2] + lost]
        elif kind == STATUS and self.sends:
            assert len(pdu) == 204
            self.echo, self.heard = pdu[152:160], time.time_ns()
            if not self.serves:
                self.load = pdu[8:36]
        else:
            return False
        return action != 0

    def run(self):
        due = time.monotonic() + 0.02
        period = 0.001 if self.sends else 0.05
        while True:
            now = time.monotonic()
            stopping = self.serves and now >= self.end
            if now >= self.end + 3:
                return
            if now >= due:
                due += period
                action = 2 if stopping else 0
                if self.sends:
                    self.send_load(action)
                elif self.received:
                    self.send_status(action)
            self.sock.settimeout(max(0.0002, due - time.monotonic()))
            try:
                pdu, peer = self.sock.recvfrom(65535)
            except (socket.timeout, ConnectionError):
                continue
            if peer == self.peer and self.hear(pdu):
                if not self.serves:
                    self.send_load(2) if self.sends else self.send_status(2)
                return

    def counts(self):
        return {"sent": self.sent, "received": self.received, "missing": self.missing}


def client(port, way, seconds, shared):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(5)
    now, up = int(time.time()), way == "up"
    ours, theirs = keys(shared, now) if shared else (None, None)
    request = bytearray(56)
    struct.pack_into(">HHBBHBBHHB", request, 0, SETUP, 20, 0, 1, random.randint(1, 65535), 1, 0, 0x8000 if up else 0, 0, 1)
    sock.sendto(signed(request, 15, ours, now), ("127.0.0.1", port))
    answer, _ = sock.recvfrom(65535)
    found = {"setup": answer[9], "setup_octets": len(answer)}
    if answer[9] != 1:
        return found
    assert is_signed(answer, 15, theirs)
    peer = ("127.0.0.1", struct.unpack(">H", answer[12:14])[0])
    request = bytearray(104)
    struct.pack_into(">HHBBHHHH", request, 0, ACTIVATION, 20, 1 if up else 2, 0, 30, 90, 50, seconds)
    struct.pack_into(">HBBHHBBBB", request, 16, 65535, 0, 10, 3, 10, 1, 0, 0, 0)
    struct.pack_into(">H", request, 56, 1000)
    sock.sendto(signed(request, 63, ours, now), peer)
    while len(answer) != 104:
        answer, _ = sock.recvfrom(65535)
    assert is_signed(answer, 63, theirs)
    found["activation"] = answer[5]
    test = Test(sock, peer, up, False, seconds)
    test.load = answer[28:56]
    test.run()
    return found | test.counts()


def server(shared):
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    control.bind(("127.0.0.1", 0))
    print("port", control.getsockname()[1], flush=True)
    control.settimeout(30)
    request, peer = control.recvfrom(65535)
    assert len(request) == 56
    ours, theirs = keys(shared, struct.unpack(">I", request[16:20])[0]) if shared else (None, None)
    assert is_signed(request, 15, ours)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(5)
    answer = bytearray(request)
    answer[8:10] = bytes((2, 1))
    answer[12:14] = struct.pack(">H", sock.getsockname()[1])
    answer[15:52] = bytes(37)
    now = int(time.time())
    control.sendto(signed(answer, 15, theirs, now), peer)
    null = bytearray(48)
    struct.pack_into(">HHB", null, 0, 0xDEAD, 20, 1)
    sock.sendto(signed(null, 7, theirs, now), peer)
    request, other = sock.recvfrom(65535)
    assert other == peer and len(request) == 104 and is_signed(request, 63, ours)
    up, seconds = request[4] == 1, struct.unpack(">H", request[12:14])[0]
    answer = bytearray(request)
    answer[5] = 1
    answer[63:100] = bytes(37)
    if up:
        answer[28:56] = ROW
    sock.sendto(signed(answer, 63, theirs, now), peer)
    test = Test(sock, peer, not up, True, seconds)
    test.run()
    return test.counts()


def main():
    role, *words = sys.argv[1:]
    shared = next((word[4:].encode() for word in words if word.startswith("key=")), None)
    if role == "client":
        print(json.dumps(client(int(words[0]), words[1], int(words[2]), shared)))
    else:
        print(json.dumps(server(shared)))


main()
