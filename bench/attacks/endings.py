"""Ends that die, stop, or cannot write: the other end reports what it measured and does not hang."""

import json
import os
import signal
import time

import rig
from rig import attack, must

VERBS = ["tcp -P 2", "tcp -R -P 2", "ping", "ping -u", "stream", "delay", "connect"]


@attack
def a_server_that_is_killed():
    """kill -9 of the server in mid-run: exit code 4 within 20 s, valid JSON with the intervals so far, a page, a saved run."""
    times = []
    for words in VERBS:
        verb, *more = words.split()
        server, folder = rig.Server(), rig.tempfile.mkdtemp(dir=rig.SCRATCH.name)
        saved, page = os.path.join(folder, "run.jsonl"), os.path.join(folder, "run.html")
        client = rig.start(verb, server.at, *more, "-t", "30s", "--json", "--save", saved, "--html", page)
        time.sleep(4)
        server.process.kill()
        began = time.monotonic()
        code, out, err = rig.end(client)
        times.append(time.monotonic() - began)
        must(code == 4 and times[-1] < 20, f"{words}: exit code {code} after {times[-1]:.0f} s: {err[-300:]}")
        document = json.loads(out)
        must(document["status"] == "partial" and document["points"][0]["intervals"], f"{words}: {document['status']}: {document['reason']}")
        must(os.path.getsize(saved) and os.path.getsize(page), f"{words}: empty files")
    return f"{min(times):.1f} to {max(times):.1f} s"


@attack
def a_client_that_is_killed():
    """kill -9 of the client in mid-run: the server has its descriptors back within 12 s and serves on."""
    server, times = rig.Server(), []
    server.still_serves()
    time.sleep(2)
    usual = server.descriptors() + 2
    for words in VERBS:
        verb, *more = words.split()
        client = rig.start(verb, server.at, *more, "-t", "30s")
        time.sleep(2.5)
        client.kill()
        client.wait()
        began = time.monotonic()
        while server.descriptors() > usual and time.monotonic() < began + 12:
            time.sleep(0.05)
        times.append(time.monotonic() - began)
        must(server.descriptors() <= usual, f"{words}: {server.descriptors()} descriptors, {usual} are usual")
    server.still_serves()
    server.intact()
    return f"at most {max(times):.1f} s"


@attack
def a_server_that_pauses():
    """SIGSTOP of the server for 4 s: the run is complete or partial, with intervals, and says why."""
    server = rig.Server()
    client = rig.start("tcp", server.at, "-P", "2", "-b", "50M", "-t", "10s", "--json")
    time.sleep(3)
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    server.process.send_signal(signal.SIGCONT)
    code, out, err = rig.end(client)
    document = json.loads(out)
    must(code in (0, 4) and len(document["points"][0]["intervals"]) >= 6, f"exit code {code}: {document['reason']} {err[-200:]}")
    return f"{document['status']}"


@attack
def nowhere_to_write():
    """A file size limit of 0, a full device and a closed pipe: one sentence, and the run goes on where it can."""
    server = rig.Server()
    page = os.path.join(rig.SCRATCH.name, "limited.html")
    limited = ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"']
    code, out, err = rig.client("ping", server.at, "-n", "20", "--html", page, before=limited)
    must(code is not None and code >= 0, f"ended by signal: {code}")
    must("round trip" in out.lower() or "rtt" in out.lower(), f"no result on stdout: {out[-300:]} {err[-300:]}")
    must(len([line for line in err.splitlines() if line]) == 1, f"not one sentence: {err}")
    full = ["sh", "-c", 'exec "$0" "$@" > /dev/full']
    code, _, err = rig.client("ping", server.at, "-n", "5", before=full)
    must(code not in (0, None) and len([line for line in err.splitlines() if line]) == 1, f"/dev/full: {code}: {err}")
    code, _, err = rig.client("ping", server.at, "-n", "5", before=["sh", "-c", '"$0" "$@" | head -1 >/dev/null'])
    must("panicked" not in err and "Broken pipe" not in err, f"a closed pipe: {err}")
    server.still_serves()
    return ""


@attack
def interrupted_while_waiting():
    """SIGINT while a client waits for a silent server: it ends within 2 s."""
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    at = f"127.0.0.1:{listener.getsockname()[1]}"
    slowest = 0
    for words in ("tcp", "ping", "delay", "load", "connect", "stream"):
        client = rig.start(words, at)
        time.sleep(1)
        client.send_signal(signal.SIGINT)
        began = time.monotonic()
        code, _, err = rig.end(client, 20)
        took = time.monotonic() - began
        must(code is not None and took < 2, f"{words}: {took:.1f} s, exit code {code}: {err[-200:]}")
        slowest = max(slowest, took)
    return f"at most {slowest:.1f} s"


@attack
def damaged_store():
    """A store cut short, overwritten or full of rubbish: one sentence, and the run's result is told."""
    server = rig.Server()
    store = os.path.join(rig.SCRATCH.name, "store.sqlite")
    words = ["ping", server.at, "-n", "5", "--store", store]
    must(rig.client(*words)[0] == 0, "with a fresh store")
    with open(store, "rb") as file:
        whole = file.read()
    for name, data in (("cut", whole[:len(whole) // 2]), ("stub", whole[:10]), ("rubbish", os.urandom(8192)),
                       ("head", b"SQLite format 3\0" + os.urandom(100) + whole[116:])):
        for ending in ("", "-wal", "-shm"):
            if os.path.exists(store + ending):
                os.remove(store + ending)
        with open(store, "wb") as file:
            file.write(data)
        code, out, err = rig.client(*words)
        must(code is not None and "panicked" not in err and len(out) > 100, f"{name}: exit code {code}: {err[-300:]}")
    return ""
