#!/usr/bin/env python3
"""UDPmon's two ends, from the description of its messages (protocol version 7); Python's standard library only.

udpmon.py ask ADDRESS PORT FRAMES [records=N] [lost=N] [skip=N] [bin=N] [size=N] [acks=1] [gap=US] [respond=BYTES] [start=1]
    [/ ADDRESS PORT FRAMES ...]...
    Takes the responder for a test, sends packets with the numbers FRAMES (0-9,5,12: in this order), and prints as JSON what
    the responder says: counts, histograms, records, texts of its host, CPU shares, a response. Between slashes stand the words of
    further requesters, which ask at once and print a line each.
udpmon.py send ADDRESS PORT FRAMES [size=N] [gap=US] [/ ADDRESS PORT FRAMES ...]...
    Sends packets with these numbers and nothing else, as udpmon_send does; further senders follow one after another.
udpmon.py respond ADDRESS PORT [drop=N,N] [late=N,N] [twice=N,N] [mute=COMMAND:TIMES] [busy=TIMES] [version=N]
    [/ ADDRESS PORT ...]...
    A responder for one requester at a time. Packets with chosen numbers are taken for lost, for come behind the next one, or
    for come twice. Requests of a command (hexadecimal) are not heard so many times; ZEROSTATS is answered with INUSE so many
    times. Prints what it did when it is interrupted (SIGINT). Between slashes stand the words of further responders, which run at
    once: first all ports are printed in a line, in the end a line for each.
"""
import json
import socket
import struct
import sys
import time

from cases import at_once, cases, serve

PARAM, HISTOGRAM, NET, CPUS, CARD = 208, 8064, 26888, 12384, 136


def settings(words):
    return dict(word.split("=", 1) for word in words)


def numbers(text):
    found = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def fields(command, version=7, **at):
    places = {"frame": (8, "q"), "length": (32, "i"), "acks": (36, "i"), "low": (40, "i"), "bin": (44, "i"), "index": (48, "i"),
              "log_lost": (52, "i"), "skip": (56, "i"), "stamps": (80, "i")}
    message = bytearray(b"\xa5" * PARAM)
    struct.pack_into("<ii", message, 0, command, version)
    for name, value in at.items():
        where, kind = places[name]
        struct.pack_into("<" + kind, message, where, value)
    return bytes(message)


def tos_of(sock):
    """IPV6_RECVTCLASS and IPV6_TCLASS, IP_RECVTOS and IP_TOS of Linux, with their level."""
    return (41, 66, 67) if sock.family == socket.AF_INET6 else (0, 13, 1)


def udp(address):
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    if sys.platform == "linux":
        level, wants, _ = tos_of(sock)
        sock.setsockopt(level, wants, 1)
    return sock


class Asker:
    def __init__(self, address, port):
        self.sock = udp(address)
        self.sock.settimeout(20)
        self.sock.connect((address, port))
        self.tos = set()
        self.level, _, self.tells = tos_of(self.sock)

    def ask(self, message):
        self.sock.send(message)
        answer, marks, _, _ = self.sock.recvmsg(70000, 64)
        for at, kind, data in marks:
            if at == self.level and kind == self.tells:
                self.tos.add(data[0] if len(data) == 1 else struct.unpack_from("<i", data)[0])
        return answer

    def block(self, command, total, piece=1400, words=False, **at):
        got = b""
        while len(got) < total:
            want = min(piece, total - len(got))
            part = self.ask(fields(command, index=len(got) // 8 if words else len(got), length=want, **at))
            assert len(part) == want, (hex(command), len(got), want, len(part))
            got += part
        return got


def rows(got, n):
    words = struct.unpack("<%dq" % (len(got) // 8), got)
    return [words[i : i + n] for i in range(0, len(words), n)]


def histogram(got):
    number, low, width, bins, total = struct.unpack_from("<4iq", got)
    counts = struct.unpack_from("<1000q", got, 32)
    title = got[8032:].split(b"\0")[0].decode()
    full = {n: count for n, count in enumerate(counts[1 : bins + 1]) if count}
    return {"id": number, "low": low, "width": width, "bins": bins, "sum": total, "under": counts[0], "over": counts[999],
            "full": full, "title": title}


def text(got, at):
    return got[at : at + 4000].split(b"\0")[0].decode()


def ask(address, port, frames, *words):
    asker, how = Asker(address, int(port)), settings(words)
    size, gap = int(how.get("size", 100)), int(how.get("gap", 0)) / 1e6
    records, lost = int(how.get("records", 0)), int(how.get("lost", 0))
    wanted = 32 * records or 24 * lost
    setup = dict(frame=0, length=wanted, acks=int(how.get("acks", 0)), low=0, bin=int(how.get("bin", 1)), index=77,
                 log_lost=int(lost > 0), skip=int(how.get("skip", 0)), stamps=0)
    taken = asker.ask(fields(1, 0, **setup))
    zero = time.monotonic_ns()
    if "start" in how:
        assert asker.ask(fields(0x80, **setup))[:8] == struct.pack("<ii", 0x20, 7)
    acks = 0
    for frame in numbers(frames):
        tenths = (time.monotonic_ns() - zero) // 100
        packet = (struct.pack("<iiqq", 4, 0x07060504, frame, tenths) + b"\x5a" * size)[:size]
        if "acks" in how:
            acks += struct.unpack_from("<i", asker.ask(packet))[0] == 0x23
        else:
            asker.sock.send(packet)
        time.sleep(gap)
    time.sleep(float(how.get("settle", 0)))
    received, missing, order, span = struct.unpack_from("<iiiq", asker.ask(fields(2)), 60)
    told = {"head": struct.unpack_from("<ii", taken), "taken": len(taken), "received": received, "lost": missing, "order": order,
            "span": span, "acks": acks}
    told["hists"] = [histogram(asker.block(0x10, HISTOGRAM, low=n)) for n in range(5)]
    net = asker.block(0x43, NET)
    told["texts"] = [text(net, at) for at in (0, 4000, 13440, 17440)]
    told["family"] = struct.unpack_from("<i", net, NET - 4)[0]
    cpus = asker.block(0x44, CPUS)
    told["cpus"] = struct.unpack_from("<i", cpus, 88)[0]
    card = asker.block(0x45, CARD)
    told["card"] = len(card)
    told["card_name"] = card[96:128].split(b"\0")[0].decode()
    told["card_counts"] = struct.unpack_from("<%dq" % struct.unpack_from("<i", card, 128)[0], card)
    if wanted:
        told["records"] = rows(asker.block(0x40, wanted, 1408 if records else 1416, words=True), 4 if records else 3)
    if "respond" in how:
        request = fields(8, frame=9, length=int(how["respond"]))[:64]
        back = asker.ask(request)
        told["response"] = [len(back), *struct.unpack_from("<iiq", back)]
    end = asker.ask(fields(0x22))
    told["end"] = struct.unpack_from("<ii", end)
    told["tos"] = sorted(asker.tos)
    return told


def send(address, port, frames, *words):
    how, sock, sent = settings(words), udp(address), 0
    for frame in numbers(frames):
        packet = struct.pack("<iiqq", 4, 0x07060504, frame, frame * 100).ljust(int(how.get("size", 100)), b"\x5a")
        sent += sock.sendto(packet, (address, int(port))) > 0
        time.sleep(int(how.get("gap", 0)) / 1e6)
    print(json.dumps({"sent": sent}))


def respond(sock, how, did):
    drop, late, twice = (set(numbers(how.get(k, ""))) for k in ("drop", "late", "twice"))
    deaf, _, times = how.get("mute", "0:0").partition(":")
    deaf, times, busy = int(deaf, 16), int(times), int(how.get("busy", 0))
    version = int(how.get("version", 7))
    did.update({"tests": 0, "packets": 0, "asks": 0, "ends": 0, "setup": None, "order": [], "zero_version": None, "tos": []})
    state = {}

    def reset(setup):
        state.update(count=0, lost=0, order=0, last=-1, first=None, end=0, rows={}, held=None, setup=setup, log=[])

    def count(frame, sent, at):
        state["count"] += 1
        state["first"] = state["first"] or at
        state["end"] = at
        if frame > state["last"]:
            state["lost"] += frame - state["last"] - 1
            state["log"] += [(0, 0, n) for n in range(state["last"] + 1, frame)]
            state["last"] = frame
        else:
            state["order"] += 1
        state["rows"].setdefault(frame, (at - state["zero"], sent, 0, 0))

    def block(command, message):
        index, wanted = struct.unpack_from("<i", message, 48)[0], struct.unpack_from("<i", message, 32)[0]
        if command == 0x10:
            number = struct.unpack_from("<i", message, 40)[0]
            whole = struct.pack("<4iqq", number, 0, 5, 150, 1234, 0) + struct.pack("<1000q", *([3, 1, 2] + [0] * 996 + [4]))
            whole += b"a title".ljust(32, b"\0")
        elif command == 0x43:
            dev = "Inter-| x\n face |y\n   eth7: %d 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"
            snmp = "Ip: InReceives\nIp: %d\nUdp: InDatagrams InErrors\nUdp: %d 0\n"
            pad = lambda s: s.encode().ljust(4000, b"\0")
            part = lambda n: pad(dev % (1000 + n)) + pad(snmp % (n, n)) + bytes(4000) + bytes(1440)
            whole = part(0) + part(5) + struct.pack("<ii", 0, 1)
        elif command == 0x44:
            entry = struct.pack("<11qii", 4, 0, 9, 85, 0, 0, 0, 0, 9, 0, 0, 2, 0)
            whole = (entry + entry).ljust(CPUS, b"\0")
        elif command == 0x45:
            whole = bytes(CARD)
        else:
            index *= 8
            if state["setup"]["log_lost"] == 1:
                table = [row for entry in state["log"] for row in entry]
            else:
                n = state["setup"]["length"] // 32
                table = [x for i in range(n) for x in state["rows"].get(i + state["setup"]["skip"], (0, 0, 0, 0))]
            whole = struct.pack("<%dq" % len(table), *table).ljust(state["setup"]["length"], b"\0")
        return whole[index : index + wanted]

    reset({"length": 0, "log_lost": 0, "skip": 0})
    state["zero"] = 0
    last_length = PARAM
    level, _, tells = tos_of(sock)
    while True:
        message, marks, _, peer = sock.recvmsg(70000, 64)
        tos = [data for at, kind, data in marks if at == level and kind == tells]
        did["tos"] = sorted({*did["tos"], *(data[0] if len(data) == 1 else struct.unpack_from("<i", data)[0] for data in tos)})
        now = time.monotonic_ns() // 100
        (command,) = struct.unpack_from("<i", message)
        if command == deaf and times > 0:
            times -= 1
            continue
        if command == 4:
            _, frame, sent = struct.unpack_from("<iqq", message.ljust(24, b"\0"), 4)
            did["packets"] += 1
            if len(did["order"]) < 50:
                did["order"].append(frame)
            if frame in late and state["held"] is None:
                state["held"] = (frame, sent)
            elif frame not in drop:
                for _ in range(2 if frame in twice else 1):
                    count(frame, sent, now)
                if state["held"]:
                    count(*state["held"], now + 1)
                    state["held"] = None
            continue
        if command == 8:
            did["asks"] += 1
            length = struct.unpack_from("<i", message, 32)[0]
            back = bytearray(message.ljust(length, b"\0")[:length])
            struct.pack_into("<ii", back, 0, 9, version)
            struct.pack_into("<q", back, 24, (now - state["zero"]) // 10)
        elif command in (1, 0x80):
            back = bytearray(message)
            struct.pack_into("<ii", back, 0, 0x21 if command == 1 and busy > 0 else 0x20, version)
            if command == 1:
                did["zero_version"] = struct.unpack_from("<i", message, 4)[0]
                state["zero"] = now
                busy, taken = busy - 1, busy <= 0
                did["tests"] += taken
            names = ("length", "acks", "low", "bin", "index", "log_lost", "skip")
            setup = dict(zip(names, struct.unpack_from("<7i", message, 32)))
            did["setup"] = [setup[name] for name in ("length", "acks", "low", "bin", "log_lost", "skip")]
            reset(setup)
        elif command == 2:
            back = bytearray(b"\x29\xc9\xb7\x36" * 52)
            span = state["end"] - (state["first"] or 0)
            struct.pack_into("<iiiq", back, 60, state["count"], state["lost"], state["order"], span)
        elif command == 0x22:
            did["ends"] += 1
            # As long as the answer before, as the original's.
            back = bytearray(message.ljust(last_length, b"\0")[:last_length])
            struct.pack_into("<ii", back, 0, 0x20, version)
        else:
            back = block(command, message)
        last_length = max(8, len(back))
        sock.sendto(back, peer)


def main():
    role, *rest = sys.argv[1:]
    if role == "ask":
        return at_once(ask, cases(rest))
    if role == "send":
        for words in cases(rest):
            send(*words)
        return
    responders = []
    for address, port, *words in cases(rest):
        sock = udp(address)
        sock.bind((address, int(port)))
        responders.append((respond, sock, settings(words)))
    serve(responders)


main()
