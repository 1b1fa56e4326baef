"""Clients that share a server: each gets its part, and none is told of an error that the network did not make."""

import json
import os
import statistics
import subprocess
import time

import rig
from rig import attack, must

TRIES = 5


def shares(kinds, of_each, patience=90):
    """Runs so many clients of each kind at once; the least part of its kind's median over all, and the worst client's words."""
    server = rig.Server()
    running = [(kind, rig.start(kind.split()[0], server.at, *kind.split()[1:], "--json")) for _ in range(of_each) for kind in kinds]
    rates = {kind: [] for kind in kinds}
    for kind, process in running:
        code, out, err = rig.end(process, patience)
        must(code == 0, f"{kind}: exit code {code}: {(err or out)[-300:]}")
        document = json.loads(out)
        must(document["status"] == "complete", f"{kind}: {document['status']}: {document['reason']}")
        rates[kind].append(rig.goodput(out))
    server.still_serves()
    server.intact()
    rig.end_all()
    return {kind: (min(found) / (statistics.median(found) or 1), sorted(round(rate / 1e6, 2) for rate in found)[:3])
            for kind, found in rates.items()}


def evenly(kinds, of_each):
    """A run that other programs disturbed is repeated; a connection without a twentieth of its part fails at once."""
    best = 0
    for _ in range(TRIES):
        found = shares(kinds, of_each)
        least = min(part for part, _ in found.values())
        must(least > 0.05, f"a client starved: {found}")
        best = max(best, least)
        if best >= 0.5:
            return f"the slowest has {best:.2f} of the median"
    raise rig.Failed(f"the slowest has {best:.2f} of the median in the best of {TRIES} runs: {found}")


@attack
def push_beside_pull():
    """10 uploads beside 10 downloads of 3 s: the slowest of each kind moves half of its median."""
    return evenly(["tcp -P 1 -t 3s", "tcp -P 1 -R -t 3s"], 10)


@attack
def all_directions():
    """5 uploads, 5 downloads, 5 duplex, 5 streams of datagrams of 3 s: the same."""
    return evenly(["tcp -P 1 -t 3s", "tcp -P 1 -R -t 3s", "tcp -P 1 --bidir -t 3s", "stream -b 5M -t 3s"], 5)


@attack
def datagrams():
    """10 paced flows of datagrams there and 10 back."""
    return evenly(["delay -b 4M -t 3s", "delay -b 4M -R -t 3s"], 10)


@attack
def two_hundred_clients():
    """200 clients at once, uploads, downloads, round trips and streams: none fails, memory stays bounded."""
    rig.most_descriptors()
    server = rig.Server()
    kinds = ["tcp -P 1 -t 3s -b 2M", "tcp -P 1 -R -t 3s -b 2M", "ping -t 3s --rate 20", "stream -b 1M -t 3s"]
    running = [rig.start(kinds[n % 4].split()[0], server.at, *kinds[n % 4].split()[1:]) for n in range(200)]
    bad = []
    for process in running:
        code, out, err = rig.end(process, 180)
        if code != 0:
            bad.append((code, (err or out)[-200:]))
    must(not bad, f"{len(bad)} of 200 failed, as: {bad[:2]}")
    server.intact()
    return f"{server.memory_mb():.0f} MB"


@attack
def a_thousand_downloads():
    """1,000 downloads of one client for 7 s: no connection is reset."""
    rig.most_descriptors()
    server = rig.Server()
    code, out, err = rig.client("tcp", server.at, "-R", "-P", "1000", "-t", "7s", patience=90)
    must(code == 0, f"exit code {code}: {(err or out)[-400:]}")
    return ""


@attack
def a_flood_of_messages():
    """One control link floods pings: the answer to another client's hello takes at most 20 ms more than without it."""
    server = rig.Server()

    def answer():
        began = time.monotonic()
        with rig.control(server.port) as link:
            _, answer = rig.hello(link)
            must(answer, "no answer to a hello")
        return (time.monotonic() - began) * 1e3

    alone = [answer() for _ in range(40)]
    # Another process, so that the interpreter's lock does not slow what is timed.
    child = os.fork()
    if child == 0:
        try:
            with rig.control(server.port) as link:
                rig.hello(link)
                link.setblocking(False)
                pings = rig.message({"type": "ping", "n": 1}) * 2000
                while True:
                    for step in (lambda: link.send(pings), lambda: link.recv(1 << 20)):
                        try:
                            step()
                        except BlockingIOError:
                            pass
        finally:
            os._exit(0)
    try:
        time.sleep(0.5)
        beside = []
        while len(beside) < 40:
            beside.append(answer())
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    server.intact()
    usual, worst = statistics.median(alone), statistics.median(beside)
    must(worst <= usual + 20, f"{usual:.1f} ms alone, {worst:.1f} ms beside the flood")
    return f"{usual:.1f} ms alone, {worst:.1f} ms beside it (medians of 40; the most {max(beside):.0f} ms)"


@attack
def echo_beside_bulk():
    """In one server process beside `tcp --bidir` the server's turnaround is at most 3 times that of a second server process."""
    loaded, quiet = rig.Server(), rig.Server()
    turnaround = {loaded.at: [], quiet.at: []}
    for _ in range(5):
        for at in turnaround:
            bulk = rig.start("tcp", loaded.at, "--bidir", "-t", "6s")
            time.sleep(1)
            code, out, err = rig.client("ping", at, "-u", "--rate", "50", "-t", "3s", "--json")
            must(code == 0, f"ping ends with {code}: {err[-300:]}")
            point = json.loads(out)["points"][-1]
            turnaround[at].append(median_turnaround(point))
            rig.end(bulk)
    one, two = (statistics.median(found) for found in turnaround.values())
    must(one <= 3 * two, f"p50 {one / 1e6:.2f} ms in the loaded process, {two / 1e6:.2f} ms in a second one")
    return f"p50 {one / 1e6:.2f} ms in the loaded process, {two / 1e6:.2f} ms in a second one"


def median_turnaround(point):
    """The median of the round trips' turnaround at the server, ns."""
    found = point["local"]["pings"]["remote_ns"]
    seen = 0
    for value, count in found["counts"]:
        seen += count
        if seen >= found["count"] / 2:
            return value
    raise rig.Failed("no turnaround in the run's JSON")


@attack
def stock_iperf3():
    """10 uploads and 10 downloads of Debian's iperf3: the slowest of each kind moves half of its median."""
    if subprocess.run(["sh", "-c", "command -v iperf3"], capture_output=True, check=False).returncode:
        raise rig.Skip("iperf3 is not installed")
    best = 0
    for _ in range(TRIES):
        server = rig.Server("--legacy", "iperf3:0")
        port = server.hears(r"answering iperf3 on [^ ]*:(\d+)").group(1)
        running = [(words, subprocess.Popen(["iperf3", "-c", "127.0.0.1", "-p", port, "-J", "-t", "3", *words], text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)) for _ in range(10) for words in ([], ["-R"])]
        rates = {0: [], 1: []}
        for words, process in running:
            out, err = process.communicate(timeout=60)
            must(process.returncode == 0, f"iperf3 ends with {process.returncode}: {(err or out)[-300:]}")
            rates[len(words)].append(json.loads(out)["end"]["sum_received"]["bits_per_second"])
        rig.end_all()
        least = min(min(found) / statistics.median(found) for found in rates.values())
        must(least > 0.05, f"a client starved: {rates}")
        best = max(best, least)
        if best >= 0.5:
            return f"the slowest has {best:.2f} of the median"
    raise rig.Failed(f"the slowest has {best:.2f} of the median in the best of {TRIES} runs")
