#!/usr/bin/env python3
"""A STAMP reflector and sender, as RFC 8762 and RFC 8972 say; Python's standard library only.

stamp.py reflector ADDRESS PORT [key=FILE] [stateless] [drop-there=N,N] [drop-back=N,N] [twice=N] [cut=OCTETS] [zeros]
                                [ahead=SECONDS] [forge=N] [ptp] [pcap=FILE] [/ ADDRESS PORT ...]...
    Answers packets. Chosen ones, by the sender's number, are taken for lost before they come (drop-there) or when their answer
    leaves (drop-back); the answer to one is sent twice; answers are cut to so many octets, or carry no times (zeros); the clock
    is ahead by so many seconds; the answer to one is spoilt so that it proves nothing (forge). Times are NTP's, or PTP's.
    Extensions are sent back with the U flag, but Extra Padding. Writes what it received and sent as
    a capture, with IP headers of its own making. Prints what it did when it is interrupted (SIGINT). Between slashes stand the
    words of further reflectors, which run at once: first all ports are printed in a line, in the end a line for each.
stamp.py sender ADDRESS PORT COUNT OCTETS [key=FILE] [ssid=N] [tlv=HEX] [dscp=N] [ttl=N] [ptp] [again=N] [number=N] [wait=S]
    [elsewhere=N] [/ ADDRESS PORT ...]...
    Sends COUNT packets, waits for the answer of each (at most wait=SECONDS), and prints all answers as a line of JSON. Between
    slashes stand the words of further senders, each with a socket of its own, which run one after another. Extensions are given in hex and
    padded with zeros to the size; in authenticated mode they are not signed unless they hold an HMAC unit of zeros, which is
    filled. Packet number `again` is sent twice, byte by byte the same; number `elsewhere` once more in the end,
    from another port.
"""
import hashlib
import hmac
import json
import socket
import struct
import sys
import time

from cases import cases, serve

EPOCH = 2208988800
# Linux; Python does not name it.
IP_RECVTTL = 12


def settings(words):
    return dict(word.split("=", 1) if "=" in word else (word, "1") for word in words)


def numbers(text):
    return {int(n) for n in text.split(",")} if text else set()


def key_of(how):
    if "key" not in how:
        return None
    with open(how["key"], "rb") as file:
        return file.read().rstrip(b"\r\n")


def seal(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()[:16]


def stamp(how, at=None):
    at = time.time_ns() if at is None else at
    at += int(float(how.get("ahead", "0")) * 1e9)
    seconds, ns = divmod(at, 10**9)
    if "ptp" in how:
        return struct.pack(">II", seconds & 0xFFFFFFFF, ns)
    return struct.pack(">II", (seconds + EPOCH) & 0xFFFFFFFF, (ns << 32) // 10**9)


def error(how):
    # Not disciplined, 128 * 2^25 * 2^-32 s = 1 s.
    return struct.pack(">H", (0x4000 if "ptp" in how else 0) | 25 << 8 | 128)


def units(data):
    at, found = 0, []
    while at + 4 <= len(data):
        flags, kind, length = struct.unpack_from(">BBH", data, at)
        if kind in (0, 255) or at + 4 + length > len(data):
            break
        found.append((at, flags, kind, length))
        at += 4 + length
    return found


def answer(how, key, data, number, came, ttl):
    """The answer to a packet that came at `came`, as its own number `number`."""
    base = 112 if key else 44
    out = bytearray(max(len(data), base) if not how.get("cut") else len(data))
    out[: len(data)] = data
    zeros = "zeros" in how
    t2 = bytes(8) if zeros else stamp(how, came)
    t3 = bytes(8) if zeros else stamp(how)
    if key:
        head = struct.pack(">I12x", number) + t3 + error(how) + data[26:28] + bytes(4) + t2 + bytes(8) + data[0:4]
        head += bytes(12) + data[16:24] + data[24:26] + bytes(6) + bytes([ttl]) + bytes(15)
        out[:96] = head
    else:
        head = struct.pack(">I", number) + t3 + error(how) + data[14:16].ljust(2, b"\0") + t2 + data[:4]
        head += data[4:12] + data[12:14] + bytes(2) + bytes([ttl]) + bytes(3)
        n = min(len(out), 44)
        out[:n] = head[:n]
    for at, _, kind, length in units(out[base:]):
        if kind == 1:
            out[base + at] = 0
        elif kind == 8 and key:
            out[base + at] = 0
            out[base + at + 4 : base + at + 20] = seal(key, out[:4], out[base : base + at])
        else:
            out[base + at] = 0x80
    if key:
        out[96:112] = seal(key, out[:96])
    return out[: int(how["cut"])] if how.get("cut") else out


def capture(file, source, target, data):
    """A packet of a capture that begins with its IPv4 header (link type 101)."""
    if not file.tell():
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
    udp = struct.pack(">HHHH", source, target, 8 + len(data), 0) + data
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 255, 17, 0, bytes([127, 0, 0, 1]), bytes([127, 0, 0, 1]))
    file.write(struct.pack("<IIII", int(time.time()), 0, 20 + len(udp), 20 + len(udp)) + ip + udp)
    file.flush()


def reflector(sock, how, did):
    pcap = open(how["pcap"], "wb") if "pcap" in how else None
    key = key_of(how)
    there, back, twice, forge = (numbers(how.get(k, "")) for k in ("drop-there", "drop-back", "twice", "forge"))
    did.update({"seen": 0, "answered": 0, "unproven": 0, "ttl": 0, "ssid": 0, "octets": 0})
    following = {}
    while True:
        data, extra, _, peer = sock.recvmsg(70000, 256)
        came = time.time_ns()
        ttl = next((struct.unpack("i", d[:4])[0] for _, kind, d in extra if len(d) >= 4), 0)
        number = int.from_bytes(data[:4], "big")
        did["seen"] += 1
        if pcap:
            capture(pcap, peer[1], sock.getsockname()[1], data)
        if key and not hmac.compare_digest(data[96:112], seal(key, data[:96])):
            did["unproven"] += 1
            continue
        did["ttl"], did["octets"] = ttl, len(data)
        did["ssid"] = int.from_bytes(data[26:28] if key else data[14:16], "big")
        if number in there:
            continue
        mine = following.get(peer, 0)
        following[peer] = mine + 1
        out = answer(how, key, data, number if "stateless" in how else mine, came, ttl)
        if number in back:
            continue
        if number in forge:
            out[100 if key else 30] ^= 1
        for _ in range(2 if number in twice else 1):
            sock.sendto(out, peer)
            did["answered"] += 1


def packet(how, key, number, octets):
    base = 112 if key else 44
    ssid = struct.pack(">H", int(how.get("ssid", "0")))
    if key:
        data = struct.pack(">I12x", number) + stamp(how) + error(how) + ssid + bytes(68 + 16)
    else:
        data = struct.pack(">I", number) + stamp(how) + error(how) + ssid + bytes(28)
    data = bytearray((data + bytes.fromhex(how.get("tlv", ""))).ljust(octets, b"\0")[:octets])
    if key:
        for at, _, kind, _ in units(data[base:]):
            if kind == 8:
                data[base + at + 4 : base + at + 20] = seal(key, data[:4], data[base : base + at])
        data[96:112] = seal(key, data[:96])
    return bytes(data)


def sender(sock, peer, count, octets, how):
    key = key_of(how)
    v6 = sock.family == socket.AF_INET6
    if "dscp" in how:
        tos = int(how["dscp"]) << 2
        sock.setsockopt(*((socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos) if v6 else (socket.IPPROTO_IP, socket.IP_TOS, tos)))
    ttl = int(how.get("ttl", "255"))
    sock.setsockopt(*((socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl) if v6 else (socket.IPPROTO_IP, socket.IP_TTL, ttl)))
    if v6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    again = numbers(how.get("again", ""))
    first = int(how.get("number", "0"))
    kept, told = None, []
    for number in range(first, first + count):
        data = packet(how, key, number, octets)
        if str(number) == how.get("elsewhere"):
            kept = data
        for copy in range(2 if number in again else 1):
            # A copy is not expected to be answered.
            sock.settimeout(0.5 if copy else float(how.get("wait", "9")))
            sock.sendto(data, peer)
            try:
                got, extra, _, _ = sock.recvmsg(70000, 256)
            except socket.timeout:
                told.append({"asked": number, "octets": 0})
                continue
            tos = next((d[0] for _, _, d in extra if d), 0)
            told.append(read(key, number, data, got, tos))
    if kept:
        other = socket.socket(sock.family, socket.SOCK_DGRAM)
        other.settimeout(0.5)
        other.sendto(kept, peer)
        try:
            octets = len(other.recv(70000))
        except socket.timeout:
            octets = 0
        told.append({"asked": int(how["elsewhere"]), "octets": octets})
    return told


def read(key, number, data, got, tos):
    places = (16, 24, 26, 32, 48, 64, 72, 80) if key else (4, 12, 14, 16, 24, 28, 36, 40)
    t3, err, ssid, t2, their, t1, their_err, ttl = places
    word = lambda at, n: int.from_bytes(got[at : at + n], "big")
    told = {
        "asked": number,
        "octets": len(got),
        "number": word(0, 4),
        "error": word(err, 2),
        "ssid": word(ssid, 2),
        "request": word(their, 4),
        "repeated": got[t1 : t1 + 8] == data[t3 : t3 + 8] and got[their_err : their_err + 2] == data[err : err + 2],
        "ttl": word(ttl, 1),
        "tos": tos,
        "ordered": word(t2, 8) <= word(t3, 8),
        "seconds": word(t2, 4),
        "tlv": got[112 if key else 44 :].hex(),
    }
    if key:
        told["proven"] = hmac.compare_digest(got[96:112], seal(key, got[:96]))
    for at, _, kind, _ in units(got[112:]) if key else []:
        if kind == 8:
            told["sealed"] = got[112 + at + 4 : 112 + at + 20] == seal(key, got[:4], got[112 : 112 + at])
    return told


def udp(address):
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def main(role, *rest):
    if role == "sender":
        for address, port, count, octets, *words in cases(rest):
            answers = sender(udp(address), (address, int(port)), int(count), int(octets), settings(words))
            print(json.dumps(answers), flush=True)
        return
    reflectors = []
    for address, port, *words in cases(rest):
        sock = udp(address)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        sock.bind((address, int(port)))
        reflectors.append((reflector, sock, settings(words)))
    serve(reflectors)


main(*sys.argv[1:])
