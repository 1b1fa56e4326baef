#!/usr/bin/env python3
"""An ntttcp peer (Linux, and Windows'), written from the description of its conversation, with the standard library only.

send PORT PORTS CONNECTIONS SECONDS CYCLE [nosync] [udp]  PORT is the first data port; the conversation is on the one below
receive PORTS SECONDS [busy|refuse|late]             says `port N` first
receiveudp PORTS SECONDS                             the same over UDP; goes as the original does
winsend PORT PORTS BUFFERS LENGTH [token]            as Windows NTttcp: one connection per port, perhaps its tokens
winreceive PORTS [token] [early]                     says `port N` first; reads each port's connection to its end, or
                                                     resets it after 100,000 bytes, as 5.40 may, which counts its reads
Each prints one line of JSON: the words of the conversation, the bytes that were moved. Between slashes stand further tests, one after
another.
"""
import json
import random
import select
import socket
import struct
import sys
import time

from cases import cases


def word(link):
    got = b""
    while len(got) < 4:
        piece = link.recv(4 - len(got))
        if not piece:
            return None
        got += piece
    return struct.unpack(">I", got)[0]


def say(link, n):
    link.sendall(struct.pack(">I", n))


def send(port, ports, connections, seconds, cycle, sync, udp=False):
    heard, data = [], []
    if sync:
        link = socket.create_connection(("127.0.0.1", port - 1))
        for n in (ord("X"), cycle):
            say(link, n)
            heard.append(word(link))

    for p in range(ports):
        for _ in range(connections):
            if udp:
                one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                one.connect(("127.0.0.1", port + p))
                data.append(one)
            else:
                data.append(socket.create_connection(("127.0.0.1", port + p)))
    if sync:
        say(link, ord("R"))
        heard.append(word(link))
    until, sent, buffer = time.monotonic() + seconds, 0, b"B" * 1000 if udp else b"A" * 16384
    while time.monotonic() < until:
        for connection in data:
            connection.sendall(buffer)
            sent += len(buffer)
        time.sleep(0.002)
    if sync and seconds < cycle:
        say(link, ord("E"))
        heard.append(word(link))
    for connection in data:
        connection.close()
    if sync:
        link.close()
    return {"heard": heard, "bytes": sent}


def listeners(ports):
    """Ports in a row, and the one below them, outside the ephemeral ports and the ports of other tests."""
    for _ in range(100):
        base = random.randrange(30_100, 31_500)
        made = []
        try:
            for p in range(base, base + ports + 1):
                one = socket.socket()
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.append(one)
                one.bind(("127.0.0.1", p))
                one.listen(128)
            return base + 1, made
        except (OSError, OverflowError):
            for one in made:
                one.close()
    sys.exit("no ports")


def receive(ports, seconds, how):
    first, sockets = listeners(ports)
    print("port", first, flush=True)
    talk, doors = sockets[0], sockets[1:]
    heard, data, filler = [], {}, True
    link, stage, until, ended, counted = None, 0, None, None, 0
    while True:
        # As the original: it goes when a data socket has an event after its end.
        ready, _, _ = select.select([s for s in [talk, link, *doors, *data] if s], [], [], 30)
        now = time.monotonic()
        if until and now >= until and not ended:
            ended = now
        if not ready:
            return {"error": "nothing happened for 30 s", "heard": heard}
        for one in ready:
            if one is talk:
                link, _ = talk.accept()
            elif one in doors:
                connection, _ = one.accept()
                data[connection] = 0
            elif one is link:
                n = word(link)
                if n is None:
                    link = None
                    if how in ("busy", "refuse"):
                        return {"heard": heard, "bytes": 0, "connections": len(data)}
                    continue
                heard.append(n)
                stage += 1
                if stage == 1:
                    say(link, 12 if how == "busy" else 11)
                elif stage == 2:
                    say(link, max(n, seconds))
                    seconds = max(n, seconds)
                elif stage == 3:
                    say(link, ord("E") if how == "refuse" else ord("R"))
                    until = now + seconds + (0.2 if how == "late" else 0)
                else:
                    say(link, 13)
                    ended = ended or now
            else:
                got = one.recv(65536)
                filler = filler and not got.strip(b"A")
                if until and not ended:
                    data[one] += len(got)
                if not got:
                    counted += data.pop(one)
                    one.close()
                    # Events on every port after the end: then all of the original's threads go.
                    if not data and until:
                        return {"heard": heard, "bytes": counted, "filler": filler, "ended": ended is not None}


def receive_udp(ports, seconds):
    """As the original: a thread looks whether its time is up only when something has come."""
    first, sockets = listeners(ports)
    doors = []
    for p in range(ports):
        door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        door.bind(("127.0.0.1", first + p))
        doors.append(door)
    for one in sockets[1:]:
        one.close()
    print("port", first, flush=True)
    talk, link, heard, until, ended, counted, filler = sockets[0], None, [], None, False, 0, True
    waiting = list(doors)
    while waiting:
        ready, _, _ = select.select([s for s in [talk, link, *waiting] if s], [], [], 30)
        if not ready:
            return {"error": "nothing happened for 30 s", "heard": heard}
        ended = ended or (until is not None and time.monotonic() >= until)
        for one in ready:
            if one is talk:
                link, _ = talk.accept()
            elif one is link:
                n = word(link)
                if n is None:
                    link = None
                    continue
                heard.append(n)
                if len(heard) == 1:
                    say(link, 11)
                elif len(heard) == 2:
                    seconds = max(n, seconds)
                    say(link, seconds)
                elif len(heard) == 3:
                    say(link, ord("R"))
                    until = time.monotonic() + seconds
                else:
                    ended = True
                    say(link, 13)
            else:
                got = one.recv(65536)
                filler = filler and not got.strip(b"B")
                if ended:
                    waiting.remove(one)
                elif until:
                    counted += len(got)
    return {"heard": heard, "bytes": counted, "filler": filler}


def token_of(one):
    """Each end says a byte, then reads one."""
    one.sendall(b"X")
    return one.recv(1) == b"X"


def connection(port):
    """Connects as soon as the port is open."""
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("port %d is closed" % port)


def winsend(port, ports, buffers, length, token):
    data = [connection(port + p) for p in range(ports)]
    tokens = []
    for p in range(ports if token else 0):
        one = connection(port + p + 1000)
        tokens.append(token_of(one))
        one.close()
    for _ in range(buffers):
        for one in data:
            one.sendall(b"A" * length)
    for one in data:
        one.close()
    return {"bytes": ports * buffers * length, "tokens": tokens}


def winreceive(ports, token, early=False):
    first, sockets = listeners(ports)
    sockets[0].close()
    aside = []
    for p in range(ports if token else 0):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", first + p + 1000))
        aside.append(one)
    print("port", first, flush=True)
    # Once per port.
    data = [door.accept()[0] for door in sockets[1:]]
    for door in sockets[1:]:
        door.close()
    # It listens for tokens when its data connections are up: the sender has to try again.
    time.sleep(0.2)
    tokens = []
    for one in aside:
        one.listen(1)
    for one in aside:
        link, _ = one.accept()
        tokens.append(token_of(link))
        link.close()
    got, filler = [0] * ports, True
    while any(data):
        ready, _, _ = select.select([one for one in data if one], [], [], 30)
        if not ready:
            return {"error": "nothing came for 30 s"}
        for one in ready:
            piece = one.recv(65536)
            at = data.index(one)
            got[at] += len(piece)
            filler = filler and not piece.strip(b"A")
            if early and got[at] > 100_000:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                piece = b""
            if not piece:
                one.close()
                data[at] = None
    return {"bytes": got, "filler": filler, "tokens": tokens}


def test(role, *words):
    if role == "send":
        port, ports, connections, seconds, cycle = int(words[0]), int(words[1]), int(words[2]), float(words[3]), int(words[4])
        done = send(port, ports, connections, seconds, cycle, "nosync" not in words, "udp" in words)
    elif role == "receiveudp":
        done = receive_udp(int(words[0]), int(words[1]))
    elif role == "winsend":
        done = winsend(*map(int, words[:4]), "token" in words)
    elif role == "winreceive":
        done = winreceive(int(words[0]), "token" in words, "early" in words)
    else:
        done = receive(int(words[0]), int(words[1]), words[2] if len(words) > 2 else "")
    print(json.dumps(done), flush=True)


for one in cases(sys.argv[1:]):
    test(*one)
