#!/usr/bin/env python3
"""A minimal ctsTraffic peer over TCP, either role, written from a description of the protocol with the standard library only.

Usage: ctstraffic.py server|client ADDRESS PORT key=value... [/ ADDRESS PORT key=value...]...

    pattern=push|pull|pushpull|duplex  transfer=N  push=N  pull=N  connections=N (one after another; server: at once)
    buffer=N   bytes per send and receive
    rude=1     client: ends by RST
    fault=...  misbehaves: flip:OFFSET (damages a payload byte), stray (says more than it should at the end),
               reset (client: RST where a FIN is due; server: RST where it should answer the FIN), pieces (identifier and
               completion byte by byte)

Cases stand between slashes: clients one after another, servers all at once. A server prints "port N" first, with a port for each
case. Each connection prints one line of JSON: case (from 0), id, sent, received, result ("ok" or what went wrong).
"""

import json
import socket
import struct
import sys
import threading
import time
import uuid

from cases import cases

PERIOD = struct.pack("<32768H", *range(0x8000))
assert len(PERIOD) == 65536


def pattern_bytes(offset, n):
    """n bytes of the pattern from an offset of one direction."""
    at = offset % len(PERIOD)
    whole = PERIOD * ((at + n) // len(PERIOD) + 1)
    return whole[at:at + n]


class Wrong(Exception):
    """What went wrong, as the original names it."""


class Peer:
    def __init__(self, sock, role, case, settings):
        self.sock, self.role, self.case, self.set = sock, role, case, settings
        self.sent = self.received = 0
        self.id = ""
        self.total = int(settings.get("transfer", 100000))
        self.buffer = int(settings.get("buffer", 65536))
        self.pattern = settings.get("pattern", "push")
        kind, _, offset = settings.get("fault", "").partition(":")
        self.fault, self.flip = kind, int(offset or 0)

    def exactly(self, n):
        got = b""
        while len(got) < n:
            more = self.sock.recv(n - len(got))
            if not more:
                raise Wrong("NotAllDataTransferred")
            got += more
        return got

    def word(self, bytes_):
        """Identifier and completion leave in one call, unless a test wants pieces."""
        if self.fault == "pieces":
            for byte in bytes_:
                self.sock.sendall(bytes([byte]))
                time.sleep(0.001)
        else:
            self.sock.sendall(bytes_)

    def send(self, n):
        while n > 0:
            size = min(n, self.buffer)
            data = bytearray(pattern_bytes(self.sent, size))
            if self.fault == "flip" and self.sent <= self.flip < self.sent + size:
                data[self.flip - self.sent] ^= 0x10
            self.sock.sendall(data)
            self.sent += size
            n -= size

    def receive(self, n):
        while n > 0:
            data = self.sock.recv(min(n, self.buffer))
            if not data:
                raise Wrong("NotAllDataTransferred")
            if data != pattern_bytes(self.received, len(data)):
                raise Wrong("DataDidNotMatchBitPattern")
            self.received += len(data)
            n -= len(data)

    def payload(self):
        client = self.role == "client"
        if self.pattern == "duplex":
            half = (self.total + 1) // 2
            trouble = []

            def sender():
                try:
                    self.send(half)
                except OSError as error:
                    trouble.append(error)

            thread = threading.Thread(target=sender)
            thread.start()
            try:
                self.receive(half)
            except (OSError, Wrong):
                self.abort()
                thread.join()
                raise
            thread.join()
            if trouble:
                raise trouble[0]
        elif self.pattern == "pushpull":
            ours, left = client, self.total
            push, pull = int(self.set.get("push", 1 << 20)), int(self.set.get("pull", 1 << 20))
            clients_turn = True
            while left > 0:
                n = min(left, push if clients_turn else pull)
                if clients_turn == ours:
                    self.send(n)
                else:
                    self.receive(n)
                left -= n
                clients_turn = not clients_turn
        elif (self.pattern == "push") == client:
            self.send(self.total)
        else:
            self.receive(self.total)

    def abort(self):
        if self.sock.fileno() < 0:
            return
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            self.sock.shutdown(socket.SHUT_RD)
        except OSError:
            pass
        self.sock.close()

    def serve(self):
        self.id = str(uuid.uuid4())
        self.word(self.id.encode() + b"\0")
        self.payload()
        self.word(b"DONE")
        if self.fault == "stray":
            self.sock.sendall(b"stray bytes")
        if self.fault == "reset":
            time.sleep(0.2)
            self.abort()
            return
        try:
            if self.sock.recv(4):
                raise Wrong("TooMuchDataTransferred")
        except (ConnectionResetError, ConnectionAbortedError, TimeoutError):
            pass

    def call(self):
        word = self.exactly(37)
        if word[36] != 0:
            raise Wrong("the identifier does not end with a NUL")
        self.id = word[:36].decode()
        if str(uuid.UUID(self.id)) != self.id:
            raise Wrong("the identifier is no lower-case UUID")
        self.payload()
        if self.fault == "stray":
            self.sock.sendall(b"stray bytes")
        if self.exactly(4) != b"DONE":
            raise Wrong("NotAllDataTransferred")
        if self.set.get("rude") or self.fault == "reset":
            self.abort()
            return
        self.sock.shutdown(socket.SHUT_WR)
        if self.sock.recv(4):
            raise Wrong("TooMuchDataTransferred")

    def run(self):
        self.sock.settimeout(30)
        try:
            self.serve() if self.role == "server" else self.call()
            result = "ok"
            self.sock.close()
        except Wrong as wrong:
            result = str(wrong)
            # What was sent is to be seen by the other end before the reset is.
            time.sleep(0.5)
            self.abort()
        except OSError as error:
            result = type(error).__name__
            self.abort()
        line = {"case": self.case, "id": self.id, "sent": self.sent, "received": self.received, "result": result}
        # One call: connections end side by side.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def accept(listener, case, settings):
    threads = []
    for _ in range(int(settings.get("connections", 1))):
        sock, _ = listener.accept()
        threads.append(threading.Thread(target=Peer(sock, "server", case, settings).run))
        threads[-1].start()
    for thread in threads:
        thread.join()


def main():
    role, *rest = sys.argv[1:]
    listeners = []
    for case, (address, port, *words) in enumerate(cases(rest)):
        settings = dict(word.split("=", 1) for word in words)
        if role == "client":
            for _ in range(int(settings.get("connections", 1))):
                Peer(socket.create_connection((address, int(port)), 10), role, case, settings).run()
            continue
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, int(port)))
        listener.listen(100)
        listeners.append((listener, case, settings))
    if role == "server":
        print("port", *(listener.getsockname()[1] for listener, _, _ in listeners), flush=True)
    for server in listeners:
        threading.Thread(target=accept, args=server).start()


main()
