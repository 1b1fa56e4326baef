#!/usr/bin/env python3
"""Either end of bwdelaytester, written from a description of its packet; Python's standard library only.

A datagram: number u64, send time u64 in microseconds, both little-endian, then filler.

bwdelaytester.py send ADDRESS PORT COUNT SIZE GAP_US [drop=N,N] [twice=N,N] [swap=N,N] [again=N] [mono] [base=US]
    Sends COUNT numbers, GAP_US apart: without those dropped, some twice, some behind the next one, and from number `again` on
    the counter starts from 0 as if the program had been restarted on the same port. `mono` stamps the monotonic clock. Prints
    how many datagrams left.
bwdelaytester.py receive ADDRESS PORT
    Prints its port, counts until SIGINT, and prints what came as JSON: numbers in their order, sizes, stamps, fillers.
"""
import json
import signal
import socket
import struct
import sys
import time


def room(sock):
    """A receive buffer of 4 MiB: SO_RCVBUFFORCE (33) is root's, and not held to the limit of the system."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
    except OSError:
        pass


def send(address, port, count, size, gap_us, words):
    how = dict(word.partition("=")[::2] for word in words)
    numbers = {k: {int(n) for n in how.get(k, "").split(",") if n} for k in ("drop", "twice", "swap")}
    again = int(how.get("again", "-1"))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    left, base, held = 0, 0, None
    clock = time.monotonic_ns if "mono" in how else time.time_ns
    due = time.monotonic_ns()
    for n in range(count):
        while time.monotonic_ns() < due:
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        due += gap_us * 1000
        if n == again:
            base = n
        datagram = struct.pack("<QQ", n - base, clock() // 1000).ljust(size, b"\x5a")
        if n in numbers["drop"]:
            continue
        if n in numbers["swap"]:
            held = datagram
            continue
        for _ in range(2 if n in numbers["twice"] else 1):
            sock.sendto(datagram, (address, port))
            left += 1
        if held is not None:
            sock.sendto(held, (address, port))
            held, left = None, left + 1
    print(left, flush=True)


def receive(address, port):
    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    room(sock)
    sock.bind((address, port))
    print("port", sock.getsockname()[1], flush=True)
    numbers, sizes, late, fillers, stamps = [], set(), 0, set(), []
    try:
        while True:
            data, _ = sock.recvfrom(65536)
            number, stamp = struct.unpack_from("<QQ", data)
            numbers.append(number)
            sizes.add(len(data))
            stamps.append(stamp)
            late += stamp > time.time_ns() // 1000
            fillers.add(data[16:].hex())
            if len(numbers) == 100:
                print("seen 100", flush=True)
    except KeyboardInterrupt:
        print(json.dumps({"numbers": numbers, "sizes": sorted(sizes), "stamps": stamps, "ahead": late,
                          "fillers": sorted(fillers)}), flush=True)


role, host, number, *rest = sys.argv[1:]
if role == "send":
    send(host, int(number), *map(int, rest[:3]), rest[3:])
else:
    receive(host, int(number))
