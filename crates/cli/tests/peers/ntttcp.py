#!/usr/bin/env python3
"""An ntttcp peer (Linux, TCP), written from the description of its conversation, with the standard library only.

send PORT PORTS CONNECTIONS SECONDS CYCLE [nosync]   PORT is the first data port; the conversation is on the one below
receive PORTS SECONDS [busy|refuse|late]             says `port N` first
Each prints one line of JSON: the words of the conversation, the bytes that were moved.
"""
import json
import select
import socket
import struct
import sys
import time


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


def send(port, ports, connections, seconds, cycle, sync):
    heard, data = [], []
    if sync:
        link = socket.create_connection(("127.0.0.1", port - 1))
        for n in (ord("X"), cycle):
            say(link, n)
            heard.append(word(link))

    for p in range(ports):
        for _ in range(connections):
            data.append(socket.create_connection(("127.0.0.1", port + p)))
    if sync:
        say(link, ord("R"))
        heard.append(word(link))
    until, sent, buffer = time.monotonic() + seconds, 0, b"A" * 16384
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
    """So many ports in a row, and the one below them."""
    for _ in range(100):
        probe = socket.socket()
        probe.bind(("127.0.0.1", 0))
        base = probe.getsockname()[1]
        probe.close()
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


def main():
    role, words = sys.argv[1], sys.argv[2:]
    if role == "send":
        port, ports, connections, seconds, cycle = int(words[0]), int(words[1]), int(words[2]), float(words[3]), int(words[4])
        done = send(port, ports, connections, seconds, cycle, "nosync" not in words)
    else:
        done = receive(int(words[0]), int(words[1]), words[2] if len(words) > 2 else "")
    print(json.dumps(done), flush=True)


main()
