"""What is done and told without the key."""

import hashlib
import hmac
import os
import socket
import threading
import time

import rig
from rig import attack, must

KEY = "correct horse battery"


def keyed(**env):
    return rig.Server(NETCALIPER_PSK=KEY, **env)


def proof(label, theirs, ours, key=KEY):
    return hmac.new(key.encode(), label + bytes.fromhex(theirs) + bytes.fromhex(ours), hashlib.sha256).hexdigest()


def try_proof(server, words):
    """What a server answers to this proof, which may use both nonces."""
    with rig.control(server.port) as link:
        nonce, answer = rig.hello(link, key=True)
        must(answer and answer.get("key"), f"the server does not ask for its key: {answer}")
        link.sendall(rig.message({"type": "proof", "proof": words(answer["nonce"], nonce)}))
        return rig.heard(link)


@attack
def no_way_round():
    """No proof, a wrong one, a replayed one, a reflected one and odd ones open no session; the right one does."""
    server = keyed()
    seen = []

    def right(theirs, ours):
        seen.append(proof(b"netcaliper client", theirs, ours))
        return seen[0]

    answer = try_proof(server, right)
    must(answer and answer["type"] == "proof", f"the right key: {answer}")
    odd = {"replayed": lambda *_: seen[0], "wrong": lambda theirs, ours: proof(b"netcaliper client", theirs, ours, "wrong key"),
           "reflected": lambda theirs, ours: proof(b"netcaliper server", theirs, ours), "empty": lambda *_: "",
           "odd": lambda *_: "abc", "no hex": lambda *_: "zz" * 32, "long": lambda *_: "a" * 64_000}
    for name, words in odd.items():
        answer = try_proof(server, words)
        must(answer is None or answer["type"] == "refused", f"{name}: {answer}")
    for first in ({"type": "propose", "run": "ac502fe6-2348-400e-9ef9-6697a6be3931", "phase": {}}, {"type": "shutdown"}, {"type": "start"}):
        with rig.control(server.port) as link:
            rig.hello(link, key=True)
            link.sendall(rig.message(first))
            answer = rig.heard(link)
            must(answer is None or answer["type"] == "refused", f"{first['type']} without proof: {answer}")
    server.still_serves(NETCALIPER_PSK=KEY)
    must(rig.client("ping", server.at, "-n", "3")[0] == 1, "a client without the key is served")
    server.intact()
    return ""


@attack
def guesses():
    """8 links guess keys for 5 s: the right key is served, few guesses are answered, and stderr stays small."""
    server = keyed()
    stop, count = time.monotonic() + 5, [0]

    def guess():
        while time.monotonic() < stop:
            try:
                count[0] += try_proof(server, lambda *_: os.urandom(32).hex()) is not None
            except (OSError, rig.Failed):
                time.sleep(0.01)

    threads = [threading.Thread(target=guess) for _ in range(8)]
    for thread in threads:
        thread.start()
    server.still_serves(NETCALIPER_PSK=KEY)
    for thread in threads:
        thread.join()
    server.still_serves(NETCALIPER_PSK=KEY)
    must(count[0] < 200, f"{count[0]} guesses answered in 5 s")
    must(server.error_bytes() < 20_000, f"{server.error_bytes()} bytes on stderr")
    return f"{count[0]} guesses answered in 5 s, {server.error_bytes()} bytes on stderr"


@attack
def data_without_a_session():
    """Data connections and datagrams with a token that nobody was given get nothing, or no more than they sent."""
    server = keyed()
    with socket.create_connection(("127.0.0.1", server.port), timeout=8) as link:
        link.sendall(rig.preamble(rig.DATA, token=os.urandom(16), identity=os.urandom(16), transfer=1 << 20))
        try:
            answer = link.recv(1 << 16)
        except ConnectionError:
            answer = b""
        must(len(answer) <= 64, f"{len(answer)} bytes for 64")
    server.still_serves(NETCALIPER_PSK=KEY)
    return ""


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
