"""The scenario of bench/run that asks how fair and how fast different clients are together, at one server: bulk data both ways, media
streams beside bulk data, round trips beside bulk data. README.md says how.
"""

import json
import statistics

from case import quantile
from rig import Process

# Of the slowest client to the median of those that ask for the same.
FAIR = 0.5
# Of the bare loop's total.
FAST = 0.9
# Media streams and their rate each, Mbit/s.
STREAMS, RATE = 100, 5


def clients(bench, place, port, lines, longer=20):
    """Runs these clients of one server at once; the first point of each outcome."""
    server = Process([*place.server, bench.args.netcaliper, "serve", "--port", port, "--quiet"])
    running = []
    try:
        server.await_listening(port)
        for words in lines:
            argv = [*place.client, bench.args.netcaliper, words[0], place.address, "--port", port, *words[1:], "--json"]
            running.append(Process(argv))
        codes = [client.wait(bench.args.seconds + longer) for client in running]
        if any(codes):
            why = next(client.errors() or client.text() for client, code in zip(running, codes) if code)
            raise ValueError(f"exit codes {codes}: {why.strip()[-200:]}")
        return [json.loads(client.text())["points"][0] for client in running]
    finally:
        for process in [server, *running]:
            process.end(0.5)


def bare(bench, place, port, count):
    """Gbit/s of the bare loop with so many clients of one connection, every byte compared, with netcaliper's send buffer on one host."""
    def words(role, connections, cores, port):
        words = [bench.args.bare, "stream", "--role", role, "--addr", f"{place.address}:{port}", "--connections", connections]
        words += ["--workers", len(cores), "--cores", ",".join(map(str, cores))]
        return [*words, "--seconds", bench.args.seconds, "--sndbuf", 96 * 1024]

    server = Process([*place.server, *words("server", count, bench.cores, port)])
    clients = []
    try:
        server.await_listening(port)
        for number in range(count):
            # Each worker of its server has a port.
            worker = number % len(bench.cores)
            clients.append(Process([*place.client, *words("client", 1, [bench.cores[worker]], port + worker)]))
        for process in [*clients, server]:
            process.wait(bench.args.seconds + 20)
        return json.loads(server.text())["gbit_s"]
    finally:
        for process in [server, *clients]:
            process.end(0.5)


def goodput(point):
    """Gbit/s that a point moved, both directions together."""
    return sum(point[way]["goodput_bps"] for way in ("up", "down") if point.get(way)) / 1e9


def both_ways(bench, seconds):
    """Ten clients that send beside ten that receive, one connection each."""
    place = bench.spaces.place("lo")
    lines = [["tcp", "-P", 1, "-t", seconds, "--pattern", way] for way in ("push", "pull") for _ in range(10)]
    rates = [goodput(point) for point in clients(bench, place, bench.port(), lines)]
    fair = [min(some) / statistics.median(some) for some in (rates[:10], rates[10:])]
    return {"fair": min(fair), "total": sum(rates), "bare": bare(bench, place, bench.port(), 20)}


def media(bench, seconds):
    """Media streams beside four bulk connections: frames that were missed, and what the bulk connections moved of what they move alone."""
    place = bench.spaces.place("lo")
    bulk = ["tcp", "-P", 4, "-t", seconds]
    alone = goodput(clients(bench, place, bench.port(), [bulk])[0])
    stream = ["stream", "-P", STREAMS, "-t", seconds, "-b", f"{RATE}M"]
    beside, streamed = clients(bench, place, bench.port(), [bulk, stream], longer=40)
    frames = streamed["local"]["frames"] or streamed["remote"][0]["frames"]
    missed = sum(n for name, n in frames.items() if name in ("dropped", "missed", "late"))
    # What the streams take is not the bulk connections' to have.
    wanted = max(alone - STREAMS * RATE / 1e3, 0.1)
    return {"missed": missed, "frames": sum(frames.values()), "bulk": goodput(beside) / wanted}


def pings(bench, seconds):
    """A thousand round trips a second beside eight bulk connections: how much longer they take than alone, us."""
    place = bench.spaces.place("lo")
    ping = ["ping", "--rate", 1000, "-t", seconds, "--no-baseline"]
    bulk = ["tcp", "-P", 8, "-t", seconds]
    alone = clients(bench, place, bench.port(), [ping])[0]
    beside, loaded = clients(bench, place, bench.port(), [bulk, ping])
    trip = lambda point, q: quantile(point["local"]["pings"]["intended_ns"], q) / 1e3
    return {
        "p50_us": trip(loaded, 0.5) - trip(alone, 0.5),
        "p99_us": trip(loaded, 0.99) - trip(alone, 0.99),
        "bulk": goodput(beside),
    }


def together(bench):
    """fair and fast together: push beside pull, media streams and round trips beside bulk data"""
    seconds, found = f"{bench.args.seconds}s", {"both_ways": [], "media": [], "pings": []}
    for part, run in ("both_ways", both_ways), ("media", media), ("pings", pings):
        for number in range(bench.args.rounds):
            bench.quiet.wait()
            try:
                found[part].append(run(bench, seconds))
                bench.say(f"  together, {part}, round {number + 1}: {found[part][-1]}")
            except (ValueError, KeyError, TypeError) as e:
                bench.verdict(False, f"together, {part}: {type(e).__name__}: {e}")
    middle = lambda part, field: statistics.median(run[field] for run in found[part])
    print("\n### together, lo\n")
    if found["both_ways"]:
        fair, ratio = middle("both_ways", "fair"), statistics.median(run["total"] / run["bare"] for run in found["both_ways"])
        bench.verdict(fair >= FAIR, f"10 push and 10 pull clients: the slowest has {fair:.2f} of the median of its kind (wanted {FAIR})")
        text = f"10 push and 10 pull clients: {middle('both_ways', 'total'):.1f} Gbit/s, {ratio:.2f} x bare compare with 20 clients"
        bench.verdict(ratio >= FAST, f"{text} (wanted {FAST})")
    if found["media"]:
        missed, bulk = sum(run["missed"] for run in found["media"]), middle("media", "bulk")
        frames = sum(run["frames"] for run in found["media"])
        bench.verdict(missed == 0, f"{STREAMS} media streams of {RATE} Mbit/s beside 4 bulk connections: {missed} of {frames} frames missed")
        bench.verdict(bulk >= FAST, f"4 bulk connections beside them: {bulk:.2f} x alone less the streams' rate (wanted {FAST})")
    if found["pings"]:
        text = "1,000 pings a second beside 8 bulk connections: p50 {:+.0f} us, p99 {:+.0f} us more than alone; bulk {:.1f} Gbit/s"
        print("       " + text.format(*(middle("pings", field) for field in ("p50_us", "p99_us", "bulk"))), flush=True)
    bench.note("together", found=found)


SCENARIOS = (together,)
