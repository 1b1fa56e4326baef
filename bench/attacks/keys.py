"""What is done and told without the key."""

import json
import os
import socket
import struct
import threading
import time

import rig
from rig import attack, must

KEY = "correct horse battery"


def keyed(**env):
    return rig.Server(NETCALIPER_PSK=KEY, **env)


class Tap:
    """A relay that keeps what the two ends of its connections say."""

    def __init__(self, port):
        self.links = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.target = ("127.0.0.1", port)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(self.target)
            said = {"client": bytearray(), "server": bytearray()}
            self.links.append(said)
            for name, source, sink in (("client", client, server), ("server", server, client)):
                threading.Thread(target=self.copy, args=(said[name], source, sink), daemon=True).start()

    @staticmethod
    def copy(said, source, sink):
        try:
            while data := source.recv(1 << 16):
                said += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def answered(server, sent, patience=3):
    """All that a server says to a connection that sends this and then nothing."""
    said = bytearray()
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience) as link:
        try:
            link.sendall(sent)
            link.shutdown(socket.SHUT_WR)
            while data := link.recv(1 << 16):
                said += data
        except OSError:
            pass
    return bytes(said)


def recorded(server):
    """What both ends of a good client's control connection said."""
    tap = Tap(server.port)
    code, out, err = rig.client("ping", tap.at, "-n", "3", NETCALIPER_PSK=KEY)
    must(code == 0, f"the right key through a relay: exit code {code}: {(err or out)[-200:]}")
    session = max(tap.links, key=lambda said: len(said["client"]))
    return bytes(session["client"]), bytes(session["server"])


def opening(client):
    """Of what a client said: the preamble and the first message of the handshake."""
    head = len(rig.preamble())
    return client[:head + 4 + int.from_bytes(client[head:head + 4], "big")]


@attack
def no_way_round():
    """A recorded session that is replayed, cut, reflected or damaged opens no session, nor do messages in the clear."""
    server = keyed()
    client, serving = recorded(server)
    must(len(serving) > 1_000, f"the relay saw {len(serving)} bytes of the server: is this the control connection?")
    for secret in (b"accepted", b"secret", b"propose", KEY.encode()):
        must(secret not in client + serving, f"{secret.decode()} stands in clear on the path")
    damaged = bytearray(client)
    damaged[116] ^= 1
    tries = {"replayed": client, "twice": client + client, "cut": client[:400], "damaged": bytes(damaged), "reflected": serving,
             "without a handshake": rig.preamble() + rig.message({"type": "hello", "version": "0", "nonce": "00" * 16}),
             "opening alone": opening(client)}
    for first in ({"type": "propose", "run": "ac502fe6-2348-400e-9ef9-6697a6be3931", "phase": {}}, {"type": "shutdown"}, {"type": "start"}):
        tries[first["type"]] = rig.preamble() + rig.message(first)
    for name, sent in tries.items():
        said = answered(server, sent)
        # The server proves itself first: its preamble, its message of the handshake, a refusal, and nothing of a session.
        must(len(said) < 700, f"{name}: the server said {len(said)} bytes: {said[:200]}")
        must(b"accepted" not in said and b'"hello"' not in said, f"{name}: {said[:300]}")
    server.still_serves(NETCALIPER_PSK=KEY)
    must(rig.client("ping", server.at, "-n", "3")[0] == 1, "a client without the key is served")
    must(rig.client("ping", server.at, "-n", "3", NETCALIPER_PSK="wrong key")[0] == 1, "a client with another key is served")
    server.still_serves(NETCALIPER_PSK=KEY)
    server.intact()
    return f"{len(tries)} kinds of attempt"


@attack
def guesses():
    """8 links begin handshakes for 5 s: few are answered, stderr stays small, the right key is served meanwhile at another address, and at theirs afterwards."""
    server = keyed()
    first = opening(recorded(server)[0])
    stop, count = time.monotonic() + 5, [0]

    def guess():
        while time.monotonic() < stop:
            # Read after the answer has come: other threads count meanwhile.
            said = answered(server, first)
            count[0] += b"noise" in said

    threads = [threading.Thread(target=guess) for _ in range(8)]
    for thread in threads:
        thread.start()
    server.still_serves(words=("--bind", "127.0.0.2"), NETCALIPER_PSK=KEY)
    for thread in threads:
        thread.join()
    # So long that its address may have handshakes again.
    time.sleep(1)
    server.still_serves(NETCALIPER_PSK=KEY)
    must(count[0] < 512 + 6 * 200, f"{count[0]} handshakes answered in 5 s")
    must(server.error_bytes() < 20_000, f"{server.error_bytes()} bytes on stderr")
    return f"{count[0]} handshakes answered in 5 s, {server.error_bytes()} bytes on stderr"


@attack
def data_without_a_session():
    """Data connections without the seal of a session get nothing, or no more than they sent."""
    server = keyed()
    with socket.create_connection(("127.0.0.1", server.port), timeout=8) as link:
        link.sendall(rig.preamble(rig.DATA, session=1, seal=os.urandom(16), identity=os.urandom(16), transfer=1 << 20))
        try:
            answer = link.recv(1 << 16)
        except ConnectionError:
            answer = b""
        must(len(answer) <= 80, f"{len(answer)} bytes for 80")
    server.still_serves(NETCALIPER_PSK=KEY)
    return ""


@attack
def stolen_openings():
    """What opens data connections is read on the path and sent again, as it is and under other numbers, while the session runs."""
    server = keyed()
    tap = Tap(server.port)
    client = rig.start("tcp", tap.at, "-P", "4", "-t", "4s", "-b", "10M", "--json", NETCALIPER_PSK=KEY)
    head, tried, sources = len(rig.preamble()), 0, 0
    while client.poll() is None:
        for said in list(tap.links):
            opening = bytes(said["client"][:head])
            if len(opening) < head or opening[10] != rig.DATA:
                continue
            sources = sources % 250 + 1
            fresh = opening[:24] + os.urandom(8) + opening[32:head - 4]
            for sent in opening, fresh + struct.pack("!I", rig.fnv1a(fresh)):
                with socket.create_connection(("127.0.0.1", server.port), timeout=8, source_address=(f"127.0.1.{sources}", 0)) as link:
                    link.sendall(sent)
                    answer = link.recv(1 << 16)
                    must(len(answer) == 16 and answer[0] == 0xA6, f"no refusal: {answer[:64]}")
                tried += 1
    code, out, err = rig.end(client)
    must(code == 0, f"the client ends with {code}: {(err or out)[-200:]}")
    opened = json.loads(out)["points"][-1]["local"]["opened"]
    must(tried > 100 and opened == 4, f"{tried} tries, {opened} connections of the client's own")
    server.intact()
    return f"{tried} openings refused"


@attack
def sources_of_the_key():
    """A key that is not text works; an empty, a short and a world-readable one are errors, never an open server."""
    server = rig.Server(NETCALIPER_PSK=os.fsdecode(b"\xff\xfe\x80abcdefghijkl"))
    must(rig.client("ping", server.at, "-n", "3")[0] == 1, "a server with a key of bytes serves a client without it")
    rig.end_all()
    folder = rig.SCRATCH.name
    for name, text, mode in (("readable", b"longenoughkey\n", 0o644), ("empty", b"", 0o600), ("short", b"abc\n", 0o600)):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(text)
        os.chmod(path, mode)
    wrong = [{"NETCALIPER_PSK": ""}, {"NETCALIPER_PSK": "abc"}, {"NETCALIPER_PSK_FILE": "/nonexistent"}, {"NETCALIPER_PSK_FILE": "/dev/null"}]
    wrong += [{"NETCALIPER_PSK_FILE": os.path.join(folder, name)} for name in ("readable", "empty", "short")]
    for env in wrong:
        code, _, err = rig.client("serve", "-p", "0", "-B", "127.0.0.1", patience=5, **env)
        must(code not in (0, None) and err.count("\n") <= 3, f"{env}: exit code {code}: {err[-200:]}")
    return ""


@attack
def other_protocols_of_a_keyed_server():
    """With a key, --legacy is refused unless --legacy-unauthenticated is said, too."""
    for words in (["--legacy", "iperf3:0"], ["--echo=0"], ["--stamp=0"]):
        code, out, err = rig.client("serve", "-p", "0", "-B", "127.0.0.1", *words, patience=5, NETCALIPER_PSK=KEY)
        must(code not in (0, None), f"{words} with a key: exit code {code}: {(err or out)[-200:]}")
    return ""
