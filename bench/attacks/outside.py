"""Datagrams whose source, forged or not, is on no network of the server: never more bytes go back than came."""

import collections
import fcntl
import hashlib
import hmac
import os
import random
import select
import socket
import struct
import subprocess
import time

import damage
import rig
from rig import attack, must

ROUNDS = int(os.environ.get("NETCALIPER_ATTACK_OUTSIDE", "20000"))
SERVER, NET = "10.99.0.1", "198.51.100."
STAMP, UDPMON, UDPSTP = 862, 14233, 24601
# Without a key these answer hosts of the server's own networks alone.
FENCED = {STAMP: "stamp", UDPMON: "udpmon", UDPSTP: "udpstp", 7: "echo", 8888: "bwdelaytester"}


class Outside:
    """A network behind a router: what comes from it enters by a TUN device, and what goes there is counted."""

    def __init__(self):
        if os.environ.get("NETCALIPER_ATTACKS_ALONE") != "1" or not os.path.exists("/dev/net/tun"):
            raise rig.Skip("needs root, for a network namespace, and /dev/net/tun")
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        # TUNSETIFF; IFF_TUN and IFF_NO_PI.
        fcntl.ioctl(self.tun, 0x400454CA, struct.pack("16sH22x", b"out0", 0x1001))
        for words in (f"addr add {SERVER}/24 dev out0", "link set out0 up", f"route add {NET}0/24 via 10.99.0.2"):
            subprocess.run(["ip", *words.split()], check=True)
        self.sent, self.back, self.longest = collections.Counter(), collections.Counter(), collections.Counter()

    def close(self):
        os.close(self.tun)

    def send(self, host, source, port, payload):
        """An IPv4 datagram to a port of the server, from a port of a host."""
        udp = struct.pack("!HHHH", source, port, 8 + len(payload), 0) + payload
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 255, 17, 0,
                           socket.inet_aton(f"{NET}{host}"), socket.inet_aton(SERVER))
        total = sum(struct.unpack("!10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        os.write(self.tun, head[:10] + struct.pack("!H", 0xFFFF ^ total) + head[12:] + udp)
        self.sent[port, host, source] += len(payload)

    def drain(self, patience=0.0):
        while select.select([self.tun], [], [], patience)[0]:
            packet = os.read(self.tun, 70_000)
            if packet[0] >> 4 != 4 or packet[9] != 17:
                continue
            begin = (packet[0] & 15) * 4
            port, source, length = struct.unpack("!HHH", packet[begin:begin + 6])
            # Pieces behind the first have no ports: they are all bytes of the last answer.
            if struct.unpack("!H", packet[6:8])[0] & 0x1FFF:
                self.back[self.last] += len(packet) - begin
                continue
            self.last = port, packet[19], source
            self.back[self.last] += len(packet) - begin - 8
            self.longest[port] = max(self.longest[port], length - 8)

    def never_more(self):
        """No host was sent more than came from it, by port."""
        for (port, host, source), back in self.back.items():
            sent = self.sent[port, host, source]
            must(back <= sent, f"port {port} sent {NET}{host}:{source} {back} bytes for {sent}")


def all_ports(outside, corpus):
    """Recorded datagrams of every protocol, whole, cut and damaged, from many hosts and ports."""
    chance, ports = random.Random(11), sorted(corpus)
    for n in range(ROUNDS):
        port = ports[n % len(ports)]
        data = chance.choice(corpus[port])
        how = n // len(ports) % 3
        if how == 1:
            data = data[:chance.choice((4, 14, 20, 41, 43, 64, len(data)))]
        elif how == 2:
            data = damage.damaged(chance, data)[:1400]
        outside.send(chance.randrange(1, 50), chance.choice((1024, 40_000, chance.randrange(1024, 60_000))), port, data[:1400])
        if n % 100 == 99:
            outside.drain()
            time.sleep(0.002)
    outside.drain(1.0)


@attack
def every_protocol():
    """Recorded, cut and damaged datagrams from other networks, to every port: no host gets more bytes than it sent; of protocols that
    prove no address none."""
    outside = Outside()
    try:
        server, corpus, _ = damage.record("0.0.0.0")
        corpus.setdefault(7, [b"x" * 64])
        setup = struct.pack("!HHBBHBBHHBB40x", 0xACE1, 20, 0, 1, 7, 1, 0, 0, 0, 1, 0)
        corpus.setdefault(UDPSTP, [setup, bytes.fromhex("ace200140200001e005a0032000a0000") + bytes(88)])
        corpus[STAMP] = corpus.get(STAMP, []) + [bytes(14), bytes(41), bytes(44), bytes(1400)]
        all_ports(outside, corpus)
        outside.never_more()
        for port, name in FENCED.items():
            got = sum(back for (at, *_), back in outside.back.items() if at == port)
            must(port in corpus and got == 0, f"{name} sent {got} bytes to hosts that proved no address")
            if name in ("stamp", "udpmon"):
                # The number of such lines has a limit.
                server.hears(rf"{name}: {NET}\d+ asked|more lines about peers, left out")
        damage.good(server)
        damage.bounded(server)
        told = {port: outside.longest[port] for port in sorted(outside.longest)}
        return f"{ROUNDS} datagrams to {len(corpus)} ports, longest answers by port {told}"
    finally:
        outside.close()


def proven(key, number, size):
    """A STAMP packet of `size` bytes that proves to know the key, without TLVs."""
    now = time.time()
    stamp = struct.pack("!II", int(now) + 2_208_988_800, int(now % 1 * 2**32))
    head = (struct.pack("!I12x", number) + stamp + struct.pack("!H", 0x8001)).ljust(96, b"\0")
    return (head + hmac.new(key, head, hashlib.sha256).digest()[:16]).ljust(size, b"\0")[:size]


@attack
def stamp_with_a_key():
    """A sender that proves the key, from another network: answers of the length of its packets; without the proof, and again, none."""
    outside = Outside()
    try:
        key = b"an attack's shared secret"
        path = os.path.join(rig.SCRATCH.name, "stamp-key")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(key)
        server = rig.Server("--stamp", "--stamp-psk-file", path, bind="0.0.0.0")
        server.hears("stamp ")
        wanted = collections.Counter()
        for number in range(300):
            host, size = number % 5 + 1, (112, 113, 300, 1400)[number % 4]
            packet = proven(key, number, size)
            wanted[host] += size
            outside.send(host, 5000, STAMP, packet)
            before, end = outside.back[STAMP, host, 5000], time.monotonic() + 2
            while outside.back[STAMP, host, 5000] == before and time.monotonic() < end:
                outside.drain(0.01)
            # Once more, from elsewhere, cut, and without a proof.
            for source, again in ((5000, packet), (5001, packet), (5000, packet[:111]), (5000, bytes(112)), (5000, bytes(14))):
                outside.send(host, source, STAMP, again)
        outside.drain(1.0)
        outside.never_more()
        got = {host: outside.back[STAMP, host, 5000] for host in wanted}
        must(all(got[host] <= wanted[host] for host in wanted), f"a repeat, or what proves nothing, was answered: {got} of {wanted}")
        must(sum(got.values()) > 0.9 * sum(wanted.values()), f"clients with the key are answered: {got} of {wanted}")
        must(not any(source == 5001 for _, _, source in outside.back), "a captured packet was answered to another port")
        server.intact()
        return f"{sum(outside.back.values())} bytes back for {sum(outside.sent.values())}"
    finally:
        outside.close()
