"""The scenario of bench/run that runs every verb without a flag, beside every rival without a flag. README.md says how.

The only words besides the host are those that choose the form of the output, and the port where the place has a network of its own no
longer to itself. Every program decides itself how long it runs.
"""

import json
import re
import shutil
import statistics

from case import quantile
from rig import Process, Skip

# A run without a flag may take so long, s: `load` has four stages of 10 s.
LONGEST = 150


def of_ours(read):
    return lambda text: read(json.loads(text)["points"][0])


def up(point):
    return point["up"]["goodput_bps"] / 1e9


def trips(point):
    """From the actual send, as the others tell it: they do not know when a message was to leave."""
    return quantile(point["local"]["pings"]["rtt_ns"], 0.5) / 1e3


def datagrams(point):
    packets = point["remote"][0]["packets"]
    return packets["counts"]["received"] * 1e9 / point["remote"][0]["traffic"]["ns"]


def found(pattern, factor=1.0):
    """The last number that a pattern finds in an output."""

    def read(text):
        numbers = re.findall(pattern, text, re.M)
        if not numbers:
            raise ValueError(f"no figure in: {text.strip()[-200:]}")
        return float(numbers[-1]) * factor

    return read


def iperf3(text):
    return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9


def iperf3_datagrams(text):
    end = json.loads(text)["end"]["sum"]
    return (end["packets"] - end["lost_packets"]) / end["seconds"]


def irtt(text):
    """The median round trip; the columns are minimum, mean, median."""
    trip = re.search(r"^ *RTT +\S+ +\S+ +([\d.]+)(ns|µs|ms)", text, re.M)
    if not trip:
        raise ValueError(f"no figure in: {text.strip()[-200:]}")
    return float(trip[1]) * {"ns": 1e-3, "µs": 1, "ms": 1e3}[trip[2]]


def rivals(bench, host):
    """For each verb: unit, whether more is better, and the rivals as name, server, port (of UDP, where that is said), client, and what reads
    the client's output.
    """
    iperf = shutil.which("iperf3")
    neper, netperf = bench.args.neper, bench.args.netperf
    third = [iperf, "-s", "-1"]
    return {
        "tcp": (
            "Gbit/s",
            True,
            [
                ("iperf3", iperf and third, 5201, [iperf, "-c", host, "-J"], iperf3),
                ("iperf", shutil.which("iperf") and ["iperf", "-s"], 5001, ["iperf", "-c", host, "-f", "m"], found(r"([\d.]+) Mbits/sec", 1e-3)),
                ("nuttcp", shutil.which("nuttcp") and ["nuttcp", "-S", "--nofork"], 5000, ["nuttcp", host], found(r"([\d.]+) Mbps", 1e-3)),
                ("ethr", bench.args.ethr and [bench.args.ethr, "-s", "-no"], 8888, [bench.args.ethr, "-c", host, "-no"], None),
            ],
        ),
        "connect": (
            "conn/s",
            True,
            [
                ("neper tcp_crr", neper and [f"{neper}/tcp_crr"], 12867, [f"{neper}/tcp_crr", "-c", "-H", host], found(r"^throughput=([\d.]+)")),
                (
                    "netperf TCP_CRR",
                    netperf and [f"{netperf}/netserver", "-D"],
                    12865,
                    [f"{netperf}/netperf", "-H", host, "-t", "TCP_CRR", "-P", "0", "--", "-k", "THROUGHPUT"],
                    found(r"THROUGHPUT=([\d.]+)"),
                ),
            ],
        ),
        "ping": (
            "us, p50 there and back",
            False,
            [
                (
                    "sockperf ping-pong",
                    shutil.which("sockperf") and ["sockperf", "server", "--tcp"],
                    11111,
                    # It tells half of a round trip.
                    ["sockperf", "ping-pong", "--tcp", "-i", host],
                    found(r"percentile 50.000 = +([\d.]+)", 2),
                ),
                ("irtt", shutil.which("irtt") and ["irtt", "server"], ("udp", 2112), ["irtt", "client", host], irtt),
            ],
        ),
        "delay": (
            "datagrams/s received",
            True,
            [("iperf3 -u", iperf and third, 5201, [iperf, "-c", host, "-u", "-J"], iperf3_datagrams)],
        ),
        "delay -b 0": (
            "datagrams/s received",
            True,
            [("iperf3 -u -b 0", iperf and third, 5201, [iperf, "-c", host, "-u", "-b", "0", "-J"], iperf3_datagrams)],
        ),
        "stream": ("Gbit/s", True, []),
        "train": ("", True, []),
        "load": ("Gbit/s, down", True, []),
    }


OURS = {
    "tcp": up,
    "connect": lambda point: point["local"]["completed"] * 1e9 / point["local"]["traffic"]["ns"],
    "ping": trips,
    "delay": datagrams,
    "delay -b 0": datagrams,
    "stream": lambda point: point["local"]["traffic"]["rx_bytes"] * 8.0 / point["local"]["traffic"]["ns"],
    "train": lambda point: 1.0 if point["status"] == "complete" else 0.0,
    "load": lambda point: 1.0 if point["status"] == "complete" else 0.0,
}


def once(bench, place, server, port, client, read):
    """One run; its figure."""
    bench.quiet.wait()
    one = Process([*place.server, *server])
    try:
        if isinstance(port, tuple):
            one.await_bound(port[1])
        else:
            one.await_listening(port)
        other = Process([*place.client, *client])
        code = other.wait(LONGEST)
        if code:
            raise ValueError(f"exit code {code}: {(other.errors() or other.text()).strip()[-200:]}")
        return read(other.text())
    finally:
        one.end(1)


def as_it_comes(bench):
    """every verb without a flag, beside every rival without a flag"""
    place, path = bench.spaces.place("lo"), bench.args.netcaliper
    if not place.server:
        raise Skip("as-it-comes: the programs' usual ports may be taken here: it needs a network namespace, and so root")
    everything = {}
    for verb, (unit, more, others) in rivals(bench, place.address).items():
        ours = [path, *verb.split()[:1], place.address, *verb.split()[1:], "--json"]
        lines = [("netcaliper " + verb, [path, "serve", "--quiet"], 7411, ours, of_ours(OURS[verb])), *others]
        runs = {name: [] for name, *_ in lines}
        print(f"\n### as it comes, lo: {verb}\n")
        for _ in range(bench.args.rounds):
            for name, server, port, client, read in lines:
                if not server or not read:
                    continue
                try:
                    runs[name].append(once(bench, place, server, port, client, read))
                    bench.say(f"  {name}: {runs[name][-1]:.3f} {unit}")
                except (ValueError, KeyError, TypeError, IndexError, Skip) as e:
                    bench.verdict(False, f"{name}: {type(e).__name__}: {e}")
        print(f"| program | median {unit} | lowest - highest | n |\n|---|---:|---:|---:|")
        for name, values in runs.items():
            if values:
                print(f"| {name} | {statistics.median(values):.4g} | {min(values):.4g} - {max(values):.4g} | {len(values)} |")
            else:
                print(f"| {name} | not measured: it is not here, or failed | | 0 |")
        mine, theirs = runs[lines[0][0]], [statistics.median(values) for name, values in runs.items() if values and name != lines[0][0]]
        if mine and theirs:
            best = max(theirs) if more else min(theirs)
            ratio = statistics.median(mine) / best
            bench.verdict(ratio >= 1 if more else ratio <= 1, f"netcaliper {verb}: {ratio:.2f} x the best of the others (wanted no worse)")
        everything[verb] = runs
    bench.note("as-it-comes", runs=everything)


SCENARIOS = (as_it_comes,)
