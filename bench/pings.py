"""The scenarios of bench/run that time round trips: spinning and blocking against sockperf and irtt, and a server that stands
still for a while. README.md says what each compares.

All tools of a table send messages of 64 bytes and run on the same cores, all their threads (taskset). A run's value is its
median round trip, us; its 99th percentile stands beside it.
"""

import json
import re
import signal
import statistics
import time

import tools
from case import Case as Table
from case import interval, ratios
from rig import Process, Skip

SIZE = 64
BARE = "bare echo"
# Messages of a run that do not count: sockperf leaves out as much of its beginning.
WARMUP = "400ms"
# How long the server stands still, and the messages a second that an open loop sends meanwhile.
STALL, RATE = 0.2, 1000


class Case(Table):
    """A table of round trips: `cores` are the client's and the server's."""

    def __init__(self, title, where, seconds, cores, tcp, spin):
        super().__init__(title, where, 1, seconds, buffer=SIZE, cores=cores, unit="us")
        self.tcp, self.spin = tcp, spin


def pinned(core, words):
    return ["taskset", "-c", str(core), *words]


# Tools ------------------------------------------------------------------------------------------------------------------


class Ours(tools.Tool):
    """netcaliper ping against netcaliper serve: every byte of the echo compared, the remote end's time told apart."""

    def __init__(self, path, extra=(), name="netcaliper ping"):
        super().__init__(name, path)
        self.extra = list(extra)

    def server(self, case, port):
        words = [self.path, "serve", "--port", port, "--quiet"] + (["--busy"] if case.spin else [])
        return pinned(case.cores[1], words), port

    def client(self, case, address, port):
        words = [self.path, "ping", "--flood", address, "--port", port, "-l", SIZE, "-t", f"{case.seconds}s", "--json", *self.extra]
        words += ["--no-baseline"] + ([] if case.tcp else ["-u"]) + (["--busy"] if case.spin else [])
        return pinned(case.cores[0], words)

    def result(self, case, clients, server):
        point = json.loads(clients[0].text())["points"][0]
        trips = point["local"]["pings"]
        if point["status"] != "complete" or trips["counts"]["damaged"]:
            raise ValueError(f"status {point['status']}: {point['local']['causes']}")
        intended = trips["intended_ns"]
        more = {"intended_p99": quantile(intended["counts"], 0.99) / 1e3} if intended else {}
        return of_run(trips["rtt_ns"]["counts"], **more)


class Bare(tools.Tool):
    """Two system calls an end and nothing else: what is left for a tester to be better in."""

    def __init__(self, path):
        super().__init__(BARE, path)

    def _words(self, case, role, address, port, core):
        words = [self.path, "echo", "--role", role, "--addr", f"{address}:{port}", "--buffer", SIZE, "--cores", core]
        words += ["--seconds", case.seconds, "--transport", "tcp" if case.tcp else "udp"]
        return words + ["--wait", "spin" if case.spin else "block"]

    def server(self, case, port):
        return self._words(case, "server", "0.0.0.0", port, case.cores[1]), port if case.tcp else ("udp", port)

    def client(self, case, address, port):
        return self._words(case, "client", address, port, case.cores[0])

    def result(self, case, clients, server):
        found = json.loads(clients[0].text())["tcp" if case.tcp else "udp"]
        return found["p50_us"], {"p99": found["p99_us"]}


class Sockperf(tools.Tool):
    """sockperf ping-pong: a closed loop, from a clock that is the processor's own counter."""

    def __init__(self):
        super().__init__("sockperf", tools.installed("sockperf"))

    def _mode(self, case):
        return (["--tcp"] if case.tcp else []) + (["--nonblocked"] if case.spin else [])

    def server(self, case, port):
        words = [self.path, "server", "-i", "0.0.0.0", "-p", port, *self._mode(case)]
        return pinned(case.cores[1], words), port if case.tcp else ("udp", port)

    def client(self, case, address, port):
        words = [self.path, "ping-pong", "-i", address, "-p", port, "-m", SIZE, "-t", case.seconds, "--full-rtt"]
        return pinned(case.cores[0], words + self._mode(case))

    def result(self, case, clients, server):
        found = dict(re.findall(r"percentile ([\d.]+) = +([\d.]+)", clients[0].text()))
        return float(found["50.000"]), {"p99": float(found["99.000"])}


class Irtt(tools.Tool):
    """irtt: an open loop of datagrams, one every millisecond; it spins in no mode, and knows no TCP."""

    def __init__(self):
        super().__init__("irtt", tools.installed("irtt"))

    def server(self, case, port):
        if case.tcp or case.spin:
            raise Skip("datagrams only" if case.tcp else "it does not spin")
        return pinned(case.cores[1], [self.path, "server", "-b", f":{port}", "-i", "0", "-d", "0"]), ("udp", port)

    def client(self, case, address, port):
        words = [self.path, "client", "-i", "1ms", "-d", f"{case.seconds}s", "-l", SIZE, "-q", "-o", "-"]
        return pinned(case.cores[0], words + [f"{address}:{port}"])

    def result(self, case, clients, server):
        text = clients[0].text()
        trips = json.loads(text[text.index("{"):])["round_trips"]
        return of_run(sorted((trip["delay"]["rtt"], 1) for trip in trips if "rtt" in trip["delay"]))


def quantile(counts, q):
    """Of values and how often each was seen, in order."""
    left = q * sum(n for _, n in counts)
    for value, n in counts:
        left -= n
        if left <= 0:
            break
    return value


def of_run(counts, **more):
    return quantile(counts, 0.5) / 1e3, {"p99": quantile(counts, 0.99) / 1e3, **more}


# Tables -----------------------------------------------------------------------------------------------------------------


def compare(bench, case, makers, factor):
    """Runs the tools in turn, and judges our median and 99th percentile against the best of the others'."""
    bench.say(f"\n## {case.title}")
    ready = []
    for make in makers:
        try:
            ready.append(make())
        except Skip as why:
            case.skipped[str(why)] = str(why)
    bench.cases.append(case)
    try:
        for number in range(bench.args.rounds):
            for tool in ready:
                bench.step(tool, case, number)
    finally:
        show(case)
    for field in "value", "p99":
        judge(bench, case, field, factor)


def show(case):
    print(f"\n### {case.title}\n\n| tool | p50, us | lowest - highest | p99, us | lowest - highest | n |\n|---|---:|---:|---:|---:|---:|")
    for name, runs in case.runs.items():
        used, calm = case.clean(name)
        if not used:
            print(f"| {name} | failed: {runs[-1].get('failed', '')[:80]} | | | | 0/{len(runs)} |")
            continue
        cells = []
        for field in "value", "p99":
            values = [run[field] for run in used]
            cells += [f"{statistics.median(values):.2f}{'' if calm else '*'}", f"{min(values):.2f} - {max(values):.2f}"]
        print(f"| {name} | {' | '.join(cells)} | {len(used)}/{len(runs)} |")
    for name, why in case.skipped.items():
        print(f"skipped: {name}: {why}" if name != why else f"skipped: {why}")
    print(flush=True)


def judge(bench, case, field, factor):
    """Whether our figure is at most `factor` times the best of the others'. Without a factor it may be no worse: the 95 %
    interval of the ratio, from the ratios within rounds, has to begin at 1 or below."""
    ours, what = "netcaliper ping", {"value": "p50", "p99": "p99"}[field]
    mine = case.median(ours, field)
    theirs = {name: case.median(name, field) for name in case.runs if name != ours}
    theirs = {name: value for name, value in theirs.items() if value is not None}
    limit = theirs.pop(BARE, None)
    if mine is None or not theirs:
        return
    best = min(theirs, key=theirs.get)
    ratio, (low, high) = mine / theirs[best], interval(ratios(case, ours, best, field))
    met = ratio <= factor if factor else low <= 1.0
    wanted = f"wanted <= {factor}" if factor else "wanted no worse"
    text = f"{case.title}: {what} {ratio:.3f} x {best}, round by round {low:.3f} to {high:.3f} (95 %); {wanted}"
    case.targets.append({"text": text, "met": met, "ratio": ratio, "interval": [low, high], "wanted": factor})
    bench.verdict(met, text)
    if limit is not None:
        print(f"  the bare loop: {limit / theirs[best]:.3f} x {best}, so that {mine / limit:.3f} x the bare loop is netcaliper's")


def two(bench):
    if len(bench.cores) < 2:
        raise Skip("the two ends want a core each")
    return bench.cores[:2]


def makers(bench):
    return [lambda: Ours(bench.args.netcaliper, ["-O", WARMUP, "-i", WARMUP]), lambda: Bare(bench.args.bare), Sockperf, Irtt]


# Scenarios --------------------------------------------------------------------------------------------------------------


def spinning(bench):
    """round trips, both ends spinning on a core each, against sockperf --nonblocked"""
    for where in bench.args.where:
        for tcp in True, False:
            title = f"spinning, {where}, {'TCP' if tcp else 'UDP'}"
            compare(bench, Case(title, where, bench.args.seconds, two(bench), tcp, True), makers(bench), 0.95)


def blocking(bench):
    """round trips, both ends sleeping while they wait, on one core and on two, against sockperf and irtt"""
    for where in bench.args.where:
        for tcp in True, False:
            for cores in bench.cores[:1] * 2, two(bench):
                name = "one core" if cores[0] == cores[1] else "two cores"
                title = f"blocking, {where}, {'TCP' if tcp else 'UDP'}, {name}"
                compare(bench, Case(title, where, bench.args.seconds, cores, tcp, False), makers(bench), None)


def stall(bench):
    """a server that stands still for 200 ms: seen by an open loop, invisible to a closed one"""
    seconds = max(3, bench.args.seconds)
    print(f"\n### stall: the server stopped for {STALL * 1e3:.0f} ms of {seconds} s, {RATE} messages a second in the open loop\n")
    print("| tool | loop | p50, us | p99, us | from the intended send: p99, us | n |\n|---|---|---:|---:|---:|---:|")
    open_loop = lambda: Ours(bench.args.netcaliper, ["--rate", RATE])
    closed = lambda: Ours(bench.args.netcaliper)
    verdicts = []
    for tcp in True, False:
        for loop, make in ("open", open_loop), ("closed", closed), ("closed", Sockperf):
            case = Case("stall", "lo", seconds, two(bench), tcp, False)
            try:
                tool = make()
                runs = [stalled(bench, tool, case) for _ in range(bench.args.rounds)]
            except Skip as why:
                print(f"skipped: {why}")
                continue
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            kind = "TCP" if tcp else "UDP"
            intended = f"{middle['intended_p99']:.0f}" if "intended_p99" in middle else "-"
            print(f"| {tool.name}, {kind} | {loop} | {middle['p50']:.1f} | {middle['p99']:.1f} | {intended} | {len(runs)} |")
            bench.note("stall", tool=tool.name, kind=kind, loop=loop, runs=runs)
            if loop == "open":
                # The message that is one in a hundred from the worst was sent so long before the server went on.
                due = (STALL - 0.01 * seconds) * 1e6
                off = middle["intended_p99"] / due
                text = f"{kind}, open loop: p99 from the intended send {off:.3f} x the {due:.0f} us that it must be (wanted 0.95 to 1.05)"
                verdicts.append((0.95 <= off <= 1.05, text))
            else:
                text = f"{kind}, closed loop ({tool.name}): p99 {middle['p99']:.0f} us (wanted < 1 % of the stall)"
                verdicts.append((middle["p99"] < STALL * 1e4, text))
    print()
    for met, text in verdicts:
        bench.verdict(met, text)


def stalled(bench, tool, case):
    """One run in whose middle the server is stopped."""
    place, port = bench.spaces.place(case.where), bench.port()
    argv, listen = tool.server(case, port)
    server, client = Process(place.server + argv), None
    try:
        server.await_bound(listen[1]) if isinstance(listen, tuple) else server.await_listening(listen)
        client = Process(place.client + tool.client(case, place.address, port))
        time.sleep(case.seconds / 2)
        server._signal(signal.SIGSTOP)
        time.sleep(STALL)
        server._signal(signal.SIGCONT)
        if client.wait(case.seconds + 25) != 0:
            raise Skip(f"{tool.name} failed: {(client.errors() or client.text()).strip()[-200:]}")
        p50, more = tool.result(case, [client], server)
        return {"p50": p50, **more}
    finally:
        for process in filter(None, (server, client)):
            process.end(0.5)


SCENARIOS = (spinning, blocking, stall)
