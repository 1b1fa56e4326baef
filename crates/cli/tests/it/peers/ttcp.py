#!/usr/bin/env python3
"""A ttcp peer, written from the description of the classic program and of epi_ttcp, with the standard library only.

receive tcp|udp PORT              takes one test, prints one line of JSON
send tcp|udp|epi PORT LENGTH N    sends one, prints one line of JSON
Port 0 lets the system choose; the receiver says `port N` first. How: words such as `mute` (no end markers). Between slashes stand
further tests, one after another.
"""
import json
import socket
import sys
import time

from cases import cases

PRINTABLE = bytes(range(0x20, 0x7F))


def room(sock):
    """A receive buffer of 4 MiB: SO_RCVBUFFORCE (33) is root's, and not held to the limit of the system."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)
    except OSError:
        pass


def pattern(length):
    return (PRINTABLE * (length // len(PRINTABLE) + 1))[:length]


def receive_tcp(port):
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen(0)
    print("port", listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    got = bytearray()
    while piece := connection.recv(65536):
        got += piece
    return {"bytes": len(got), "first": got[:8].decode("latin-1"), "data": got}


def receive_udp(port, patience=20):
    """Datagrams of up to four bytes are markers: the first starts, the next one while going ends."""
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    door.bind(("127.0.0.1", port))
    room(door)
    door.settimeout(patience)
    print("port", door.getsockname()[1], flush=True)
    going, got, calls, whole = False, 0, 0, bytearray()
    kinds = []
    while True:
        datagram, _ = door.recvfrom(65536)
        calls += 1
        if datagram[:4] == b"\1\2\3\4" and len(datagram) == 4:
            kinds.append("epi-start")
            going = True
        elif datagram[:4] == b"\2\2\2\2" and len(datagram) == 8:
            return {"bytes": got, "calls": calls, "kinds": kinds, "told": int.from_bytes(datagram[4:], "big"),
                    "first": whole[:8].hex()}
        elif len(datagram) <= 4:
            kinds.append(datagram.hex())
            if going:
                break
            going = True
        else:
            got += len(datagram)
            whole += datagram[:8]
    # What comes behind the first end marker.
    behind = []
    try:
        while len(behind) < 4:
            behind.append(door.recvfrom(65536)[0].hex())
    except TimeoutError:
        pass
    return {"bytes": got, "calls": calls, "kinds": kinds, "behind": behind, "first": whole[:8].hex()}


def send_tcp(port, length, count):
    out = socket.create_connection(("127.0.0.1", port))
    for _ in range(count):
        out.sendall(pattern(length))
    out.close()
    return {"bytes": length * count}


def send_udp(port, length, count, how):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(("127.0.0.1", port))

    def say(datagram, times=1):
        for _ in range(times):
            try:
                out.send(datagram)
            except ConnectionRefusedError:
                pass

    epi = "epi" in how
    if "headless" not in how:
        say(b"\1\2\3\4" if epi else pattern(4), 4 if epi else 1)
    for n in range(count):
        data = bytearray(pattern(length))
        if epi:
            data[0] = n % 256
        if f"skip{n}" not in how:
            say(bytes(data))
        if n % 16 == 15:
            time.sleep(0.001)
    if "mute" not in how:
        say(b"\2\2\2\2" + count.to_bytes(4, "big") if epi else pattern(4), 4 if epi else 5)
    return {"bytes": length * count}


def test(role, kind, port, *words):
    port = int(port)
    if role == "receive":
        done = receive_tcp(port) if kind == "tcp" else receive_udp(port)
        if "data" in done:
            length = int(words[0])
            done["same"] = bytes(done.pop("data")) == pattern(length) * (done["bytes"] // length)
    else:
        length, count, how = int(words[0]), int(words[1]), [*words[2:], kind]
        done = send_tcp(port, length, count) if kind == "tcp" else send_udp(port, length, count, how)
    print(json.dumps(done), flush=True)


for one in cases(sys.argv[1:]):
    test(*one)
