"""Servers that answer a client with what no server says."""

import json
import os
import socket
import struct
import threading
import time

import rig
from rig import attack, must

EVIL = "\x1b]0;title\x07\x1b[31m<script>alert(1)</script>\u202eRED\r\nfake line\x9b31m"


class Rogue:
    """Answers each connection with `talk(link)` in a thread of its own."""

    def __init__(self, talk):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.at = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.talk = talk
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self):
        while True:
            try:
                link = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.each, args=[link], daemon=True).start()

    def each(self, link):
        with link:
            link.settimeout(20)
            try:
                self.talk(link)
            except (OSError, ValueError, KeyError, struct.error):
                pass


def harmless(talk, words=("tcp",), most=25, **env):
    """A client of a rogue server ends by itself, with an error, without a panic and without the server's control characters."""
    rogue = Rogue(talk)
    page = os.path.join(rig.SCRATCH.name, "rogue.html")
    began = time.monotonic()
    code, out, err = rig.client(words[0], rogue.at, *words[1:], "-t", "2s", "--html", page, patience=most + 20, **env)
    took = time.monotonic() - began
    rogue.listener.close()
    must(code is not None and took < most, f"the client needs {took:.0f} s")
    must(code != 0, "the client calls it a success")
    text = out + err
    must("panicked" not in text, text[-500:])
    for name, bad in (("an escape", "\x1b"), ("a C1 control", "\x9b"), ("a bidirectional override", "\u202e")):
        must(bad not in text, f"{name} of the server reaches the terminal: {text[-300:]!r}")
    must(not any(line.startswith("fake line") for line in text.splitlines()), f"the server begins a line: {text[-300:]!r}")
    if os.path.exists(page):
        with open(page, errors="replace") as file:
            must("<script>alert(1)" not in file.read(), "the server's script is in the page")
        os.remove(page)


@attack
def banners():
    """Other services' first words, with control characters."""
    for banner in (EVIL + "\n", "SSH-2.0-" + EVIL + "\r\n", "HTTP/1.1 400 " + EVIL + "\r\n\r\n"):
        harmless(lambda link, text=banner: (link.sendall(text.encode()), time.sleep(1)))


@attack
def silence_and_resets():
    """A server that says nothing, one that resets, one that hangs up."""
    harmless(lambda link: time.sleep(30))
    harmless(lambda link: link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)))
    harmless(lambda link: rig.exactly(link, 64))


@attack
def another_version():
    """A preamble of wire version 999."""
    harmless(lambda link: (rig.exactly(link, 64), link.sendall(rig.preamble(4, version=999)), time.sleep(1)))


def after_hello(answer):
    """Reads preamble and hello, says a hello full of control characters, and answers each further message."""

    def talk(link):
        rig.exactly(link, 64)
        rig.heard(link)
        link.sendall(rig.message({"type": "hello", "version": EVIL, "nonce": "00" * 16, "host": EVIL}))
        while (asked := rig.heard(link)) is not None:
            if asked["type"] == "ping":
                link.sendall(rig.message({"type": "pong", "n": asked["n"]}))
            elif answer(link, asked) is False:
                time.sleep(1)
                return

    return talk


@attack
def lengths():
    """A length of 4 GiB, messages without end, a megabyte of reason."""
    harmless(lambda link: (rig.exactly(link, 64), rig.heard(link), link.sendall(b"\xff" * 4 + bytes(100)), time.sleep(2)))

    def flood(link):
        rig.exactly(link, 64)
        while True:
            link.sendall(b"\0\0\xff\xff" + b" " * 65535)

    harmless(flood)

    def refuse(link, asked):
        link.sendall(rig.message({"type": "refused", "reason": "A" * 1_000_000}))
        return False

    harmless(after_hello(refuse))


@attack
def pings_without_end():
    """A server that only asks for answers."""

    def talk(link):
        rig.exactly(link, 64)
        link.sendall(rig.message({"type": "hello", "version": "9", "nonce": "00" * 16}))
        while True:
            link.sendall(rig.message({"type": "ping", "n": 1}) * 500)

    harmless(talk, most=40)


@attack
def refusals():
    """Reasons, notices and host names with control characters and line ends."""

    def refuse(link, asked):
        link.sendall(rig.message({"type": "refused", "reason": EVIL * 3}))
        return False

    def queue(link, asked):
        link.sendall(rig.message({"type": "queued", "ahead": 4_000_000_000, "reason": EVIL}))
        time.sleep(1)
        link.sendall(rig.message({"type": "stopping", "reason": EVIL}))
        return False

    harmless(after_hello(refuse))
    harmless(after_hello(refuse), words=("ping",))
    harmless(after_hello(queue))


def accept(change):
    def answer(link, asked):
        if asked["type"] == "propose":
            phase = asked["phase"]
            change(phase)
            link.sendall(rig.message({"type": "accepted", "accepted": {"session": 1, "changes": [], "others": 0}, "secret": "00" * 16,
                                      "phase": phase, "host": {"name": EVIL, "kernel": EVIL, "cpu": EVIL}, "workers": 4_000_000_000,
                                      "placement": EVIL}))
        elif asked["type"] == "start":
            link.sendall(rig.message({"type": "started"}) + rig.message({"type": "notice", "level": "warning", "text": EVIL})
                         + rig.message({"type": "interval", "index": 4_294_967_295, "open": 2**64 - 1, "others": 1,
                                        "traffic": {"tx_bytes": 2**64 - 1, "rx_bytes": 2**64 - 1, "ns": 2**64 - 1}})
                         + rig.message({"type": "stopping", "reason": EVIL}))

    return answer


@attack
def grants():
    """Sessions granted with absurd numbers and texts, data connections cut."""
    harmless(after_hello(accept(lambda phase: None)), most=40)
    harmless(after_hello(accept(lambda phase: None)), words=("ping",), most=40)
    harmless(after_hello(accept(lambda phase: phase.update(connections=1_000_000, duration_ns=2**63))), most=40)


@attack
def a_key_is_never_told():
    """A rogue server that asks for the key gets a proof, not the key, and cannot pass for the right one."""
    seen = []

    def talk(link):
        rig.exactly(link, 64)
        rig.heard(link)
        link.sendall(rig.message({"type": "hello", "version": "1", "nonce": "00" * 16, "key": True}))
        seen.append(json.dumps(rig.heard(link)))
        link.sendall(rig.message({"type": "proof", "proof": "00" * 32}))
        time.sleep(1)

    harmless(talk, NETCALIPER_PSK="secret-key-123")
    must(seen and "secret-key-123" not in seen[0], f"the client said {seen}")
