#!/usr/bin/env python3
"""A minimal ctsTraffic media stream peer, either role, written from a description of the protocol with the standard library only.

Usage: ctstraffic_udp.py server|client ADDRESS PORT key=value... [/ ADDRESS PORT key=value...]...

    rate=BITS/S  fps=N  seconds=N  datagram=N
    fault=...   server: drop:FRAME (leaves a datagram of it out), double:FRAME (sends one of it twice), flip:FRAME (damages a
                byte), flag:FRAME (another flag), early:FRAME (sends it right at the start), silent (no answer at all)
                client: again (says START three times at once), nonsense (says other things first)

Cases stand between slashes, and run at once. A server prints "port N" first, with a port for each case. Each stream prints one line
of JSON with its case (from 0). Server: id, frames, bytes, starts. Client: id, whole (frames of which every byte came), bytes, gap_ms
(longest and shortest time between frames), ticks (largest sender's stamp), result.
"""

import json
import socket
import struct
import sys
import threading
import time
import uuid

from cases import cases

PATTERN = struct.pack("<32768H", *range(0x8000))


def room(sock):
    """A receive buffer of 4 MiB: SO_RCVBUFFORCE (33) is root's, and not held to the limit of the system."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
    except OSError:
        pass


def split(frame, most):
    """Lengths of a frame's datagrams: the last one has 27 bytes or more, and the one before gives what is missing."""
    sizes = []
    while frame > 0:
        n = min(frame, most)
        left = frame - n
        if 0 < left <= 26:
            n -= 27 - left
        sizes.append(n)
        frame -= n
    return sizes


class Settings:
    def __init__(self, case, words):
        self.case, self.set = case, dict(word.split("=", 1) for word in words)
        self.fps = int(self.set.get("fps", 10))
        seconds = int(self.set.get("seconds", 2))
        self.most = int(self.set.get("datagram", 1400))
        self.frames = seconds * self.fps
        total = int(self.set.get("rate", 1000000)) // 8 * seconds
        total -= total % self.frames
        self.size = total // self.frames
        kind, _, frame = self.set.get("fault", "").partition(":")
        self.fault, self.at = kind, int(frame or 0)


def say(s, **told):
    # One call: streams end side by side.
    sys.stdout.write(json.dumps({"case": s.case, **told}) + "\n")
    sys.stdout.flush()


def datagrams(s, frame, ticks):
    out = []
    for n in split(s.size, s.most):
        header = struct.pack("<Hqqq", 0, frame, ticks, 10000000)
        out.append(header + PATTERN[:n - 26])
    if frame == s.at:
        if s.fault == "drop":
            out.pop()
        if s.fault == "double":
            out.append(out[0])
        if s.fault == "flip":
            out[0] = out[0][:40] + bytes([out[0][40] ^ 1]) + out[0][41:]
        if s.fault == "flag":
            out[0] = b"\x07\x00" + out[0][2:]
    return out


def serve(sock, s):
    sock.settimeout(30)
    while True:
        word, peer = sock.recvfrom(1024)
        if word == b"START":
            break
    if s.fault == "silent":
        time.sleep(2)
        return say(s, id="", frames=0, bytes=0, starts=1)
    name, sent, starts = str(uuid.uuid4()), 0, 1
    sock.sendto(struct.pack("<H", 0x1000) + name.encode() + b"\0", peer)
    base = time.monotonic()
    sock.setblocking(False)
    order = list(range(1, s.frames + 1))
    if s.fault == "early":
        order.remove(s.at)
        order.insert(0, s.at)
    for frame in order:
        wait = base + frame / s.fps - time.monotonic()
        if wait > 0 and not (s.fault == "early" and frame == s.at):
            time.sleep(wait)
        for datagram in datagrams(s, frame, int((time.monotonic() - base) * 10000000)):
            sock.sendto(datagram, peer)
            sent += len(datagram)
    try:
        while True:
            starts += sock.recvfrom(1024)[0] == b"START"
    except BlockingIOError:
        pass
    say(s, id=name, frames=s.frames, bytes=sent, starts=starts)


def call(sock, s):
    if s.fault == "nonsense":
        for word in (b"", b"STAR", b"START\0", b"START ", b"x" * 1400):
            sock.send(word)
    for _ in range(3 if s.fault == "again" else 1):
        sock.send(b"START")
    frames, name, ids, total, ticks, result = {}, "", 0, 0, 0, "ok"
    first, end, gaps, last = None, time.monotonic() + s.frames / s.fps + 3, [], None
    while time.monotonic() < end and (len(frames) < s.frames or frames[s.frames] < s.size):
        sock.settimeout(max(0.05, end - time.monotonic()))
        try:
            data = sock.recv(65535)
        except socket.timeout:
            break
        now = time.monotonic()
        flag = struct.unpack_from("<H", data)[0]
        if flag == 0x1000:
            ids += 1
            name = data[2:38].decode()
            if len(data) != 39 or data[38] != 0 or str(uuid.UUID(name)) != name:
                result = "a bad identifier"
            continue
        flag, frame, stamp, hz = struct.unpack_from("<Hqqq", data)
        if flag != 0 or hz != 10000000 or not 0 <= stamp < 1 << 47 or not 1 <= frame <= s.frames:
            result = "a bad header"
        if data[26:] != PATTERN[:len(data) - 26] or not 27 <= len(data) <= s.most:
            result = "a bad payload"
        ticks = max(ticks, stamp)
        if frame not in frames:
            if last is not None:
                gaps.append((now - last) * 1000)
            last = now
        frames[frame] = frames.get(frame, 0) + len(data)
        total += len(data)
    whole = sum(1 for n in frames.values() if n == s.size)
    if ids != 1:
        result = "%d identifiers" % ids
    gap_ms = [min(gaps or [0]), max(gaps or [0])]
    say(s, id=name, whole=whole, bytes=total, ticks=ticks, result=result, gap_ms=gap_ms)


def main():
    role, *rest = sys.argv[1:]
    streams, ports = [], []
    for case, (address, port, *words) in enumerate(cases(rest)):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        room(sock)
        if role == "client":
            sock.connect((address, int(port)))
        else:
            sock.bind((address, int(port)))
            ports.append(sock.getsockname()[1])
        streams.append((sock, Settings(case, words)))
    if ports:
        print("port", *ports, flush=True)
    for stream in streams:
        threading.Thread(target=call if role == "client" else serve, args=stream).start()


main()
