"""The scenarios of bench/run that send datagrams: delay at full speed, the highest rate without loss, media streams, spacing,
and how well a path whose truth is known is measured. README.md says what each compares.

All tools of a table are pinned alike. *Across*: senders on the first core, receivers on the second. *Pairs*: a sender and a
receiver of each tool on every core.
"""

import json
import math
import statistics
import tempfile

import rig
import tools
from case import Case as Table
from case import interval, ratios
from rig import Process, Skip

# UDP payload of a packet that fills an Ethernet frame, nearly, and of a small one that still holds our header of 40.
LARGE, SMALL = 1400, 64
# Datagrams a send call holds at most: what 65507 bytes and the kernel's limit of 128 leave.
SEGMENTS = {LARGE: 46, SMALL: 128}
# A frame of 25 Mbit/s at 60 a second is 37 datagrams of 1400 bytes and one of 283.
STREAM_BPS, FRAMES_A_SECOND, IN_A_FRAME = 25_000_000, 60, 38
A_SECOND = FRAMES_A_SECOND * IN_A_FRAME
# Share of the datagrams that may be missing at a rate that counts as carried.
CARRIED = 1e-4


class Case(Table):
    """A table of datagrams: `cores` are those of the senders and those of the receivers."""

    def __init__(self, title, seconds, cores, size=LARGE, flows=1, rate=None):
        super().__init__(title, "veth", flows, seconds, buffer=size, unit="datagrams/s")
        (self.senders, self.receivers), self.rate = cores, rate
        # A sender and a receiver on one core.
        self.shared = set(self.senders) & set(self.receivers)


def across(bench):
    if len(bench.cores) < 2:
        raise Skip("a sender and a receiver want a core each")
    return bench.cores[:1], bench.cores[1:2]


def pairs(bench):
    return bench.cores, bench.cores


# Tools ------------------------------------------------------------------------------------------------------------------


class Datagrams(tools.Tool):
    """What all of them have in common: their figure is the receiver's datagrams per second, with the share that was lost."""

    server_ends = True

    def found(self, received, sent, seconds, **more):
        return received / seconds, {"loss": max(0, sent - received) / sent if sent else 1.0, **more}


class Ours(Datagrams):
    """netcaliper delay: every datagram numbered, stamped, checked and compared, its delay recorded."""

    server_ends = False

    def __init__(self, path, name="netcaliper delay", extra=()):
        super().__init__(name, path)
        self.extra = list(extra)

    def server(self, case, port):
        # Its receiver spins when the client asks for it, unless it has to leave the core to a sender.
        words = [self.path, "serve", "--port", port, "--quiet"] + ([] if case.shared else ["--busy"])
        return words + ["--affinity", spell(case.receivers)], port

    def client(self, case, address, port):
        words = [self.path, "delay", "--up", address, "--port", port, "-t", f"{case.seconds}s", "--json", "-l", case.buffer]
        words += ["-P", case.flows, "--workers", len(case.senders), "--affinity", spell(case.senders)]
        words += ["-b", round(case.rate * case.buffer * 8 / case.flows)] if case.rate else []
        return words + self.extra

    def result(self, case, clients, server):
        point = json.loads(clients[0].text())["points"][0]
        if point["status"] != "complete":
            raise ValueError(f"status {point['status']}: {point['local']['causes']}")
        near, far = point["local"]["packets"], point["remote"][0]["packets"]
        received, counts = far["counts"]["received"], near["counts"]
        return self.found(received, counts["sent"], case.seconds, unsent=counts["unsent"], late_ns=near["late_ns"])


class Streams(Datagrams):
    """netcaliper stream: `case.flows` streams of 25 Mbit/s from the server, every byte compared, every frame judged."""

    server_ends = False

    def __init__(self, path, protocol="native"):
        super().__init__("netcaliper stream" + (f" --protocol {protocol}" if protocol != "native" else ""), path)
        self.protocol = protocol

    def server(self, case, port):
        # Left to itself, netcaliper puts the two ends of a stream on one core.
        if self.protocol == "native":
            return [self.path, "serve", "--port", port, "--quiet"], port
        words = [self.path, "ctstraffic", "-listen:*", "-protocol:udp", f"-port:{port}", "-consoleverbosity:0"]
        words += [f"-bitspersecond:{STREAM_BPS}", f"-framerate:{FRAMES_A_SECOND}", f"-streamlength:{case.seconds}"]
        return words, ("udp", port)

    def client(self, case, address, port):
        words = [self.path, "stream", address, "--port", port, "--protocol", self.protocol, "--json", "-P", case.flows]
        words += ["-b", STREAM_BPS, "--fps", FRAMES_A_SECOND, "--length", f"{case.seconds}s"]
        return words + ["--workers", len(case.receivers)]

    def result(self, case, clients, server):
        point = json.loads(clients[0].text())["points"][0]
        near, all_frames = point["local"], case.flows * case.seconds * FRAMES_A_SECOND
        got, seconds = near["packets"]["counts"]["received"], near["traffic"]["ns"] / 1e9
        if self.protocol == "native":
            # The rate is that of what came while the streams were to last: a server that is behind goes on after that.
            seconds *= got / max(1, sum(interval["packets"]["counts"]["received"] for interval in point["intervals"]))
        else:
            # The client holds the last frame for a second, and does not learn how late the server was.
            seconds = max(case.seconds, seconds - 1)
        missed = all_frames - near["frames"]["completed"]
        limit = [caveat["text"] for caveat in point["caveats"] if caveat["code"] == "stream-limit"]
        sent = all_frames * IN_A_FRAME
        return self.found(got, sent, seconds, missed=missed, limit=limit)


class Bare(Datagrams):
    """The bare loop: a number and a time in each datagram; with `compare` the receiver looks at every byte. With many
    sockets each send call, of as many datagrams as a frame has, goes out on the next of them."""

    def __init__(self, path, verify="read", sockets=1, pause=0):
        words = ["bare"] + ["compare"] * (verify == "compare") + [f"{sockets} sockets"] * (sockets > 1)
        super().__init__(" ".join(words + [f"pause {pause}"] * (pause != 0)), path)
        self.verify, self.sockets, self.pause = verify, sockets, pause

    def _words(self, case, role, address, port, cores):
        segments = SEGMENTS[case.buffer] if self.sockets == 1 else IN_A_FRAME
        words = [self.path, "datagrams", "--role", role, "--addr", f"{address}:{port}", "--workers", len(cores)]
        words += ["--cores", spell(cores), "--seconds", case.seconds, "--buffer", case.buffer, "--rcvbuf", "4Mi"]
        words += ["--segments", segments, "--verify", self.verify, "--connections", len(cores)]
        words += ["--sockets", max(1, self.sockets // len(cores)), "--pause", self.pause]
        return words + (["--rate", case.rate] if case.rate else [])

    def server(self, case, port):
        return self._words(case, "server", "0.0.0.0", port, case.receivers), ("udp", port)

    def client(self, case, address, port):
        return self._words(case, "client", address, port, case.senders)

    def result(self, case, clients, server):
        sent, got = json.loads(clients[0].text()), json.loads(server.text())
        return self.found(got["datagrams"], sent["datagrams"], case.seconds)


class Limit(Bare):
    """The bare loop from the first core to the second, independent of the table's cores: so many streams as make `share` of its
    datagrams are asked of those whose turn is next."""

    def __init__(self, path, cores, share):
        super().__init__(path)
        self.cores, self.share = cores, share

    def _words(self, case, role, address, port, cores):
        return super()._words(case, role, address, port, self.cores[role == "server"])

    def result(self, case, clients, server):
        value, more = super().result(case, clients, server)
        case.flows = max(1, round(self.share * value / A_SECOND))
        return value, more


class Spaced(Bare):
    """The bare loop at a rate, each datagram a call of its own, both ends spinning: how late they leave."""

    def __init__(self, path):
        super().__init__(path)
        self.name = "bare, spin"

    def _words(self, case, role, address, port, cores):
        return super()._words(case, role, address, port, cores) + ["--segments", 1, "--wait", "spin"]

    def result(self, case, clients, server):
        late = json.loads(clients[0].text())["late"]
        return super().result(case, clients, server)[0], {"p50": late["p50_us"], "p99": late["p99_us"]}


class Iperf3(Datagrams):
    """iperf3 over UDP as fast as it goes; `--gsro` (3.21) sends and receives merged."""

    def __init__(self, name, path, flags=()):
        super().__init__(" ".join([name, *flags]), path)
        self.flags = list(flags)

    def server(self, case, port):
        return ["taskset", "-c", spell(case.receivers), self.path, "-s", "-1", "-p", port], port

    def client(self, case, address, port):
        words = ["taskset", "-c", spell(case.senders), self.path, "-c", address, "-p", port, "-u", "-b", 0, "-J"]
        return words + ["-l", case.buffer, "-P", case.flows, "-t", case.seconds, *self.flags]

    def result(self, case, clients, server):
        end = json.loads(clients[0].text())["end"]
        got = end.get("sum_received") or end["sum"]
        if not got["packets"]:
            # 3.21 offers as many datagrams a call as 64 KiB hold, and Linux cuts 128 at most: nothing of 64 bytes ever leaves.
            raise ValueError("it received nothing")
        return self.found(got["packets"] - got["lost_packets"], got["packets"], got["seconds"])


def spell(cores):
    return ",".join(map(str, cores))


def percent(share):
    return "nothing known" if share is None else f"{share * 100:.3g} %"


# Scenarios --------------------------------------------------------------------------------------------------------------


def delay(bench):
    """datagrams as fast as they go, each accounted for, against iperf3 and the bare loop"""
    # Where both ends are on one core, the sender's has to leave it to the receiver's now and then.
    layouts = [("one flow across two cores", across(bench), 1, 0), ("two flows, both ends on both cores", pairs(bench), 2, 512 * 1024)]
    for where, cores, flows, pause in layouts:
        for size in LARGE, SMALL:
            flat_out(bench, f"{size} bytes, {where}", cores, flows, size, pause)


def flat_out(bench, what, cores, flows, size, pause):
    case = Case(f"delay: {what}", bench.args.seconds, cores, size, flows)
    ours, bare = Ours(bench.args.netcaliper, extra=["-b", 0, "--gro"]), Bare(bench.args.bare, pause=pause)
    makers = [
        ours,
        bare,
        Bare(bench.args.bare, "compare", pause=pause),
        lambda: Iperf3("iperf3 (Debian)", tools.installed("iperf3")),
        lambda: Iperf3("iperf3 3.21", bench.given("iperf3_321"), ["--gsro"]),
    ]
    bench.compare(case, makers, [(ours.name, ["iperf3 (Debian)"], 20), (ours.name, [bare.name], 0.9)])
    rival = "iperf3 3.21 --gsro"
    theirs = case.median(rival)
    if not theirs:
        return
    # At full speed a faster sender loses more datagrams, so receivers are compared at one rate.
    title = f"delay: {what}, at the rate that {rival} receives"
    level = Case(title, bench.args.seconds, cores, size, flows, rate=round(theirs))
    same = Ours(bench.args.netcaliper, "netcaliper delay -b RATE", ["--gro"])
    bench.compare(level, [same])
    mine, lost, allowed = level.median(same.name) or 0, level.median(same.name, "loss"), case.median(rival, "loss")
    bench.verdict(
        mine >= 0.95 * theirs and lost is not None and lost <= allowed,
        f"{same.name}: {mine / theirs:.2f} x {rival} with {percent(lost)} lost (wanted >= 0.95, and no more than its "
        f"{percent(allowed)})",
    )


def search(bench):
    """the highest rate of 1400 bytes with less than 0.01 % lost, by our own search and by the same with the bare loop"""
    found = {"netcaliper delay --search": [], "bare": []}
    for _ in range(max(1, bench.args.rounds // 2)):
        found["netcaliper delay --search"].append(own_search(bench))
        found["bare"].append(same_search(bench, Bare(bench.args.bare)))
    print("\n### search: highest rate of 1400 bytes, one flow across two cores, less than 0.01 % lost\n")
    print("| tool | median datagrams/s | lowest - highest | n |\n|---|---:|---:|---:|")
    for name, rates in found.items():
        print(f"| {name} | {statistics.median(rates):.0f} | {min(rates):.0f} - {max(rates):.0f} | {len(rates)} |")
    ours, bare = (statistics.median(rates) for rates in found.values())
    print()
    bench.verdict(ours >= 0.9 * bare > 0, f"highest rate of netcaliper: {ours / max(1, bare):.2f} x bare (wanted >= 0.9)")
    bench.note("search", found=found)


def own_search(bench):
    """What `netcaliper delay --search` finds."""
    tool = Ours(bench.args.netcaliper, "netcaliper delay --search", ["--gro", f"--search={CARRIED}"])
    case = Case("search", max(1, bench.args.seconds // 2), across(bench))
    run = bench.once(Whole(tool), case, 180)
    bench.say(f"  {tool.name}: {run.get('value', 0):.0f} datagrams/s {run.get('failed', '')}")
    return run.get("value", 0)


class Whole(Datagrams):
    """A search with netcaliper: the best of its points."""

    server_ends = False

    def __init__(self, tool):
        super().__init__(tool.name, tool.path)
        self.server, self.client = tool.server, tool.client

    def result(self, case, clients, server):
        best = 0
        for point in json.loads(clients[0].text())["points"]:
            received = point["remote"][0]["packets"]["counts"]["received"]
            if received >= (1 - CARRIED) * point["local"]["packets"]["counts"]["sent"]:
                best = max(best, received)
        return self.found(best, best, case.seconds)


def same_search(bench, tool):
    """The steps of `netcaliper delay --search` (crates/model/src/search.rs) with another tool; rates are datagrams a second."""
    seconds, best, tried, carried, failed, trying = max(1, bench.args.seconds // 2), 0, {}, {}, math.inf, None
    for _ in range(80):
        run = bench.once(tool, Case("search", seconds, across(bench), rate=trying and round(trying)))
        arrived, loss = run.get("value", 0), run.get("loss", 1)
        sent, passed = arrived / (1 - loss) if loss < 1 else trying or 1, loss <= CARRIED
        best = max(best, arrived) if passed else best
        tally = tried.setdefault(trying, [0, 0])
        tally[not passed] += 1
        # As fast as it goes is no rate that could be tried again, unless it got through before.
        if tally[not passed] < 2 and (trying or (not passed and tally[0])):
            continue
        if not passed:
            failed = min(failed, trying or sent)
            carried = {asked: rate for asked, rate in carried.items() if rate < (trying or sent) and asked != trying}
        elif trying not in carried:
            short = trying and sent < 0.98 * trying
            failed = min(failed, trying) if short else failed
            carried[trying] = trying if trying and not short else sent
        highest = max(carried, key=carried.get, default=None)
        if carried and (highest is None or failed <= carried[highest] * 1.02):
            if tried[highest][0] >= 6:
                break
            trying = highest
        elif trying is None and 0 < arrived < failed:
            trying = arrived
        else:
            trying = (carried[highest] * failed) ** 0.5 if carried else failed / 2
    bench.say(f"  {tool.name}: {best:.0f} datagrams/s")
    return best


def streams(bench):
    """as many media streams of 25 Mbit/s as the bare loop has room for, every byte compared"""
    seconds = bench.args.seconds
    loops = Case("streams: what the bare loop moves", seconds, across(bench))
    bare, many, looks = Bare(bench.args.bare), Bare(bench.args.bare, sockets=2000), Bare(bench.args.bare, "compare", 2000)
    bench.compare(loops, [bare, many, looks])
    # On pairs of cores, too; for information: a receiver on the sender's core finds the bytes in its cache.
    both = Case("streams: what the bare loop moves with a sender and a receiver on each core", seconds, pairs(bench))
    bench.compare(both, [many, looks, Bare(bench.args.bare, "compare", 2000, pause=512 * 1024)])
    limit = Limit(bench.args.bare, across(bench), 0.93)
    title = f"streams of 25 Mbit/s and 60 frames a second, as many as make {limit.share} of the round's bare loop"
    case = Case(title, seconds, pairs(bench))
    ours = [Streams(bench.args.netcaliper), Streams(bench.args.netcaliper, "ctstraffic")]
    bench.compare(case, [limit, *ours])
    for tool in ours:
        found, missed = ratios(case, tool.name, limit.name), case.median(tool.name, "missed")
        if not found or missed is None:
            bench.verdict(False, f"{tool.name}: nothing was measured")
            continue
        middle, (low, high) = statistics.median(found), interval(found)
        text = f"{tool.name}: {middle:.2f} x {limit.name} round by round, {low:.2f} to {high:.2f} (95 %), wanted >= 0.9; "
        bench.verdict(middle >= 0.9 and missed == 0, f"{text}{missed:.0f} frames missed in the median, wanted 0")
        for said in sorted({text for run in case.clean(tool.name)[0] for text in run["limit"]}):
            print(f"  {said}")


def spacing(bench):
    """a datagram every 10 us: how late they leave, spinning and not"""
    print("\n### spacing: 64 bytes every 10 us, one flow across two cores\n")
    print("| waiting | late p50, us | p99 | max | sent of 100,000/s | n |\n|---|---:|---:|---:|---:|---:|")
    # How late a loop is that does nothing but look at the clock and send: what takes its core away is not ours.
    loop = Spaced(bench.args.bare)
    runs = [bench.measure(loop, Case("spacing", bench.args.seconds, across(bench), SMALL, rate=100_000)) for _ in range(bench.args.rounds)]
    good = [run for run in runs if "value" in run]
    limit = {key: statistics.median(run[key] for run in good) for key in ("p50", "p99")} if good else None
    if limit:
        print(f"| {loop.name} | {limit['p50']:.2f} | {limit['p99']:.2f} | | | {len(good)}/{len(runs)} |")
        bench.note("spacing", waiting=loop.name, late_us=limit)
    for waiting in "spin", "hybrid", "block":
        tool = Ours(bench.args.netcaliper, extra=["--spacing", "10us", "--wait", waiting])
        runs = [bench.measure(tool, Case("spacing", bench.args.seconds, across(bench), SMALL)) for _ in range(bench.args.rounds)]
        good = [run for run in runs if "value" in run]
        if not good:
            print(f"| {waiting} | failed | | | | 0/{len(runs)} |")
            continue
        middle = {key: statistics.median(run["late_ns"][key] for run in good) / 1e3 for key in ("p50", "p99", "max")}
        share = statistics.median(run["value"] for run in good) / 1e5
        print(f"| {waiting} | {middle['p50']:.2f} | {middle['p99']:.2f} | {middle['max']:.0f} | {share:.4f} | {len(good)}/{len(runs)} |")
        bench.note("spacing", waiting=waiting, late_us=middle, share=share)
        if waiting == "spin":
            beside = f"; the bare loop's is {limit['p99']:.2f} us" if limit else ""
            verdict = middle["p99"] < 1.0, f"lateness while spinning: p99 {middle['p99']:.2f} us (wanted < 1){beside}"
    print()
    bench.verdict(*verdict)


def lab(bench):
    """delay over a path of 20 ms whose truth is known: how far off the median and the 99th percentile are"""
    core = bench.cores[-1]
    print(f"\n### lab: 200 bytes through 20 ms, the lab on core {core} and both ends on the others\n")
    print("| datagrams/s | median, us off | p99, us off | lab late p99, us | lost | n |\n|---|---:|---:|---:|---:|---:|")
    verdicts = []
    for pps in 1_000, 20_000:
        runs = []
        for _ in range(bench.args.rounds):
            try:
                runs.append(through_lab(bench, core, pps))
            except (ValueError, KeyError, TypeError, IndexError) as e:
                bench.say(f"  {pps}/s failed: {type(e).__name__}: {e}")
        if not runs:
            verdicts.append((False, f"lab at {pps}/s: no run"))
            continue
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        off = {key: middle[key] / 1e3 for key in ("p50", "p99", "late")}
        print(f"| {pps} | {off['p50']:+.0f} | {off['p99']:+.0f} | {off['late']:.0f} | {middle['lost']:.0f} | {len(runs)} |")
        good = abs(off["p50"]) < 100 and abs(off["p99"]) < 300 and middle["lost"] == 0
        text = f"lab at {pps}/s: median {off['p50']:+.0f} us and p99 {off['p99']:+.0f} us off the truth (wanted < 100 and < 300)"
        verdicts.append((good, text))
        bench.note("lab", pps=pps, runs=runs)
    print()
    for met, text in verdicts:
        bench.verdict(met, text)


def in_lab(bench, core, path, more):
    """A run of delay through a lab's path: its outcome's point, and what the lab says that it did."""
    ours, port = bench.args.netcaliper, bench.port()
    with tempfile.NamedTemporaryFile() as report:
        words = [ours, "lab", *path, "--core", core, "--quiet", "--report", report.name]
        words += ["--server", f"{ours} serve --port {port} --quiet", "--", ours, "delay", "--up", "10.77.0.2", "--port", port]
        words += ["-l", 200, "-t", f"{bench.args.seconds}s", "--json", "--wait", "block", *more]
        run = Process(words, [rig.niceness(bench.args.nice)])
        code = run.wait(bench.args.seconds + 30)
        if code != 0:
            raise ValueError(f"exit code {code}: {run.errors().strip()[-200:]}")
        # The lab replaces the file by a new one of this name.
        with open(report.name) as truth:
            return json.loads(run.text())["points"][0], json.load(truth)


def through_lab(bench, core, pps):
    """What one run measured beyond what the lab says it applied, ns."""
    point, truth = in_lab(bench, core, ["--delay", "20ms"], ["--pps", pps])
    truth = truth["up"]
    found, counts = point["remote"][0]["packets"]["delay_ns"], point["local"]["packets"]["counts"]
    lost = counts["sent"] - point["remote"][0]["packets"]["counts"]["received"]
    off = {key: found[key] - truth["delay_ns"][key] for key in ("p50", "p99")}
    return {**off, "late": truth["late_ns"]["p99"], "lost": lost}


def bound(bench):
    """in-band clocks over a path of 20 ms there and 5 ms back: the truth lies within the stated bound, in every run"""
    core = bench.cores[-1]
    print("\n### bound: 20 ms there and 5 ms back, clocks compared over the path itself\n")
    print("| run | there, ms off ± bound | back, ms off ± bound |\n|---|---:|---:|")
    runs = []
    path = ["--up", "delay=20ms", "--down", "delay=5ms"]
    for n in range(bench.args.rounds):
        try:
            point, truth = in_lab(bench, core, path, ["--pps", 500, "--bidir", "--clock", "in-band"])
        except (ValueError, KeyError, TypeError, IndexError) as e:
            bench.say(f"  run {n + 1} failed: {type(e).__name__}: {e}")
            continue
        ways = {}
        for way, packets in ("up", point["remote"][0]["packets"]), ("down", point["local"]["packets"]):
            # The median of a direction, and how far it may be wrong, against the median of what was applied.
            off = packets["delay_ns"]["p50"] - truth[way]["delay_ns"]["p50"]
            ways[way] = (off, packets["clock_bound_ns"])
        runs.append(ways)
        cells = (f"{off / 1e6:+.3f} ± {may / 1e6:.3f}" for off, may in ways.values())
        print(f"| {n + 1} | {' | '.join(cells)} |")
    within = [abs(off) <= may for ways in runs for off, may in ways.values()]
    print()
    # Half of a round trip of 25 ms: a smaller bound would be a lie, however near the truth it came.
    honest = all(may >= 12e6 for ways in runs for _, may in ways.values())
    text = f"bound: the truth was within it {sum(within)} times of {len(within)} (wanted always), and it was at least 12 ms"
    bench.verdict(bool(within) and all(within) and honest and len(runs) == bench.args.rounds, text)
    bench.note("bound", runs=runs)


SCENARIOS = (delay, search, streams, spacing, lab, bound)
