"""Asks servers that cannot prove an address for answers, from inside and from outside of their fence, and tells what came.

fence.py SERVER OUTSIDE UDPMON BWDELAYTESTER ECHO STAMP UDPSTP: an address of the server, one of our own that is not directly connected to
it, five ports. Prints {"inside": {NAME: [length, ..]}, "outside": {..}}. Written from the descriptions of the messages.
"""

import json
import socket
import struct
import sys

SERVER, OUTSIDE = sys.argv[1:3]
PORTS = dict(zip(("udpmon", "bwdelaytester", "echo", "stamp", "udpstp"), map(int, sys.argv[3:8])))
ROUNDS = 10


def param(command, length=0):
    """UDPmon's message of 208 bytes, with the length of the answer that is wanted and a bin width of 1."""
    head = struct.pack("<iiqqqiiii", command, 7, 1, 0, 0, length, 0, 0, 1)
    return head + bytes(208 - len(head))


# ZEROSTATS, then a request of 64 bytes for 8000, then blocks that are far longer than their requests; in the end TESTEND.
TALKS = {
    "udpmon": [param(0x01), param(0x08, 8000)[:64], param(0x43, 1400), param(0x10, 8064), param(0x22)],
    "echo": [b"\x55" * 300],
    "stamp": [bytes(44), bytes(14)],
    # A set-up, and the activation of a stream of 1 Gbit/s to the client.
    "udpstp": [
        struct.pack(">HHBBHBBHHBB40x", 0xACE1, 20, 0, 1, 7, 1, 0, 0, 0, 1, 0),
        struct.pack(">HHBBHHHHBBHBBHHBBBB28xH46x", 0xACE2, 20, 2, 0, 30, 90, 50, 10, 0, 0, 1000, 0, 10, 3, 10, 1, 0, 0, 0, 1000),
    ],
    "bwdelaytester": [struct.pack("<QQ", n, 1_700_000_000_000_000 + n) + bytes(84) for n in range(5)],
}


def own(address):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 0))
    return made


def answer(asker, port, message):
    """The answer to a message, asked for until it comes."""
    asker.settimeout(3)
    for _ in range(10):
        asker.sendto(message, (SERVER, port))
        try:
            return len(asker.recv(70_000))
        except TimeoutError:
            continue
    return None


inside, outside = {}, {}
for name, talk in TALKS.items():
    port, near, far = PORTS[name], own("0.0.0.0"), own(OUTSIDE)
    inside[name] = []
    for n in range(ROUNDS):
        for message in talk:
            far.sendto(message, (SERVER, port))
            if name == "bwdelaytester":
                # It never answers anybody.
                near.sendto(struct.pack("<Q", n * len(talk) + talk.index(message)) + message[8:], (SERVER, port))
            elif n == ROUNDS - 1:
                inside[name].append(answer(near, port, message))
    far.settimeout(0.2)
    outside[name] = []
    try:
        while True:
            outside[name].append(len(far.recv(70_000)))
    except TimeoutError:
        pass
print(json.dumps({"inside": inside, "outside": outside}))
