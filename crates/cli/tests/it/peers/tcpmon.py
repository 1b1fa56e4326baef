#!/usr/bin/env python3
"""tcpmon's two ends, from the description of its messages (version 2.2.1); Python's standard library only.

tcpmon.py ask ADDRESS PORT SIZES...
    Sends messages of these lengths (1000,144x3: the second three times) over one connection, asks for everything, and prints as
    JSON what was answered. There are as many connections, at once, as there are SIZES, and a line for each, in their order.
tcpmon.py respond ADDRESS PORT [miscount=BYTES]
    A responder for any number of connections, which counts so many bytes too few. Prints as JSON what came on each, in the order in
    which they ended, when it is interrupted (SIGINT).
"""
import json
import signal
import socket
import struct
import sys
import threading
import time

from cases import at_once
from stream import exactly

PARAM, NET, CPUS, CARD = 144, 26888, 12384, 136


def message(command, frame, length, answer, index=0):
    head = bytearray(b"\xa5" * PARAM)
    struct.pack_into("<i", head, 0, command)
    struct.pack_into("<qq", head, 8, frame, 0)
    struct.pack_into("<i", head, 32, answer)
    struct.pack_into("<i", head, 44, length)
    struct.pack_into("<i", head, 52, index)
    return bytes(head) + b"\x5a" * (length - PARAM)


def ask(address, port, sizes):
    sock = socket.create_connection((address, port), 20)
    lengths = []
    for part in sizes.split(","):
        size, _, times = part.partition("x")
        lengths += [int(size)] * int(times or 1)
    for frame, length in enumerate(lengths):
        sock.sendall(message(4, frame, length, 0))
    query = lambda command, answer, index=0: (sock.sendall(message(command, 0, PARAM, answer, index)), exactly(sock, answer))[1]
    stats = query(2, PARAM)
    received, nbytes, span = struct.unpack_from("<iqq", stats, 60)
    net = query(0x43, NET)
    cards = [query(0x45, CARD, index) for index in (0, 1)]
    cpus = query(0x44, CPUS)
    text = lambda at: net[at : at + 4000].split(b"\0")[0].decode()
    return {
        "received": received, "bytes": nbytes, "span": span, "net": len(net), "dev": text(0), "snmp": text(4000),
        "cards": [card[96:128].split(b"\0")[0].decode() for card in cards],
        "counts": [struct.unpack_from("<i", card, 128)[0] for card in cards],
        "cpus": struct.unpack_from("<i", cpus, 88)[0], "cpu_bytes": len(cpus),
    }


def serve(sock, did, how):
    count = nbytes = 0
    first = span = None
    asked, lengths = [], set()
    while True:
        head = exactly(sock, PARAM)
        if len(head) < PARAM:
            break
        (command,) = struct.unpack_from("<i", head)
        (length,) = struct.unpack_from("<i", head, 44)
        rest = exactly(sock, length - PARAM)
        now = time.monotonic_ns() // 1000
        if command == 4:
            count, nbytes = count + 1, nbytes + length
            lengths.add(PARAM + len(rest))
            first = first if first is not None else now
            span = now - first
            continue
        asked.append(command)
        if command == 2:
            back = bytearray(head)
            struct.pack_into("<iqq", back, 60, count, nbytes - int(how.get("miscount", 0)), span or 0)
        elif command == 0x43:
            back = b"\0" * NET
        elif command == 0x45:
            back = b"\0" * CARD
        elif command == 0x44:
            entry = struct.pack("<11qii", 4, 0, 9, 85, 0, 0, 0, 0, 9, 0, 0, 2, 0)
            back = (entry + entry).ljust(CPUS, b"\0")
        else:
            break
        sock.sendall(back)
    did.append({"messages": count, "bytes": nbytes, "lengths": sorted(lengths), "asked": asked})
    sock.close()


def respond(address, port, how):
    listener = socket.create_server((address, port))
    print("port", listener.getsockname()[1], flush=True)
    did, threads = [], []
    try:
        while True:
            sock, _ = listener.accept()
            threads.append(threading.Thread(target=serve, args=(sock, did, how), daemon=True))
            threads[-1].start()
    except KeyboardInterrupt:
        for thread in threads:
            thread.join(20)
        print(json.dumps(did), flush=True)


def main():
    role, address, port = sys.argv[1:4]
    if role == "ask":
        return at_once(ask, [(address, int(port), sizes) for sizes in sys.argv[4:]])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    respond(address, int(port), dict(word.split("=", 1) for word in sys.argv[4:]))


main()
