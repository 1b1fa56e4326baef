#!/usr/bin/env python3
"""An echo service and an asker of echoes, as RFC 862 and the description of RtTcpip say; Python's standard library only.

echo.py server tcp|udp ADDRESS PORT [drop=N,N] [late=N,N:MS] [wrong=N:BYTE] [short=N] [twice=N] [close=BYTES] [pieces=N]
    [/ tcp|udp ADDRESS PORT ...]...
    Sends back what comes. Over UDP the number of a datagram is its first 8 bytes, big-endian, and chosen ones are dropped,
    sent back late, with a byte changed, one byte short, or twice. Over TCP the byte at an offset is changed (wrong=OFFSET:0),
    the connection is closed after so many bytes, or answers go out in pieces. Prints what it did when it is interrupted (SIGINT).
    Between slashes stand the words of further services, which run at once: first all ports are printed in a line, in the end a
    line for each.
echo.py client tcp|udp ADDRESS PORT COUNT SIZE [/ tcp|udp ADDRESS PORT COUNT SIZE]...
    Sends COUNT messages of SIZE bytes, in odd pieces over TCP, waits for each, and prints how many came back as they were: a
    line for each of these, one after another.
"""
import heapq
import json
import selectors
import socket
import sys
import threading
import time

from cases import cases, serve
from stream import exactly


def settings(words):
    return dict(word.split("=", 1) for word in words)


def numbers(text):
    return {int(n) for n in text.split(",")} if text else set()


def udp_server(sock, how, did):
    drop, short, twice = (numbers(how.get(k, "")) for k in ("drop", "short", "twice"))
    late, _, late_ms = how.get("late", "").partition(":")
    late = numbers(late)
    wrong, _, at = how.get("wrong", "").partition(":")
    wrong = numbers(wrong)
    did.update({"seen": 0, "dropped": 0, "late": 0, "wrong": 0, "short": 0, "twice": 0})
    due = []
    chooser = selectors.DefaultSelector()
    chooser.register(sock, selectors.EVENT_READ, "sock")
    udp_echo(sock, chooser, due, did, (drop, late, late_ms, wrong, at, short, twice))


def udp_echo(sock, chooser, due, did, plan):
    drop, late, late_ms, wrong, at, short, twice = plan
    while True:
        wait = max(0, due[0][0] - time.monotonic()) if due else None
        for _ in chooser.select(wait):
            data, peer = sock.recvfrom(70000)
            number = int.from_bytes(data[:8], "big")
            did["seen"] += 1
            if number in drop:
                did["dropped"] += 1
            elif number in late:
                did["late"] += 1
                heapq.heappush(due, (time.monotonic() + int(late_ms) / 1000, number, data, peer))
            elif number in wrong:
                did["wrong"] += 1
                spoilt = bytearray(data)
                spoilt[int(at)] ^= 0x10
                sock.sendto(spoilt, peer)
            elif number in short:
                did["short"] += 1
                sock.sendto(data[:-1], peer)
            else:
                sock.sendto(data, peer)
                if number in twice:
                    did["twice"] += 1
                    sock.sendto(data, peer)
        while due and due[0][0] <= time.monotonic():
            _, _, data, peer = heapq.heappop(due)
            sock.sendto(data, peer)


def tcp_serve(conn, how, did):
    offset, close = 0, int(how.get("close", "0"))
    wrong = numbers(how.get("wrong", ":").partition(":")[0])
    pieces = int(how.get("pieces", "0"))
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with conn:
        while data := conn.recv(65536):
            out = bytearray(data)
            for at in wrong:
                if offset <= at < offset + len(out):
                    out[at - offset] ^= 0x10
                    did["wrong"] += 1
            if close and offset + len(out) >= close:
                conn.sendall(out[: close - offset])
                did["closed"] += 1
                return
            step = pieces or len(out)
            for start in range(0, len(out), step):
                conn.sendall(out[start : start + step])
            offset += len(out)
            did["bytes"] += len(out)
        did["ended"] += 1


def tcp_server(sock, how, did):
    did.update({"connections": 0, "bytes": 0, "wrong": 0, "closed": 0, "ended": 0})
    while True:
        conn, _ = sock.accept()
        did["connections"] += 1
        threading.Thread(target=tcp_serve, args=(conn, how, did), daemon=True).start()


def client(kind, address, port, count, size):
    whole, told = 0, {}
    udp = kind == "udp"
    sock = socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
    sock.settimeout(20)
    sock.connect((address, port))
    for n in range(count):
        message = (bytes((n * 31 + i * 7) % 256 for i in range(256)) * (size // 256 + 1))[:size]
        if udp:
            sock.send(message)
            back = sock.recv(70000)
        else:
            step = n % 5 + 1 if size < 100 else size // (n % 3 + 1)
            for start in range(0, size, step):
                sock.sendall(message[start : start + step])
            back = exactly(sock, size)
        whole += back == message
    if not udp:
        sock.shutdown(socket.SHUT_WR)
        told["rest"] = len(sock.recv(10))
    print(json.dumps({"whole": whole, **told}), flush=True)


def main():
    role, *rest = sys.argv[1:]
    if role == "client":
        for kind, address, *counts in cases(rest):
            client(kind, address, *map(int, counts))
        return
    services = []
    for kind, address, port, *words in cases(rest):
        sock = socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
        sock.bind((address, int(port)))
        if kind == "tcp":
            sock.listen(64)
        services.append((udp_server if kind == "udp" else tcp_server, sock, settings(words)))
    serve(services)


main()
