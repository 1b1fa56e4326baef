"""The scenario of bench/run that asks what a key costs: goodput, connections a second and the time until a run begins, with a key and
without one, in turn. README.md says how.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time

import tools
from case import Case, interval, ratios
from rig import Process

WITH, WITHOUT = "with a key", "without"
# Starts of a client in one round.
STARTS = 20
# A run that waits for nothing, so that the start is most of it.
SHORT = ["-P", 1, "--iterations", 1, "--transfer", 1]
# A start may take so much longer with a key, ms.
LONGER = 5.0


def words(key):
    return ["--psk-file", key] if key else []


class Keyed(tools.Ours):
    """netcaliper with this key file, or with none."""

    def __init__(self, path, key, **options):
        super().__init__(path, **options)
        self.key = key
        self.name = WITH if key else WITHOUT

    def server(self, case, port):
        argv, listen = super().server(case, port)
        return [*argv, *words(self.key)], listen

    def client(self, case, address, port):
        return [*super().client(case, address, port), *words(self.key)]


def no_worse(bench, case, what):
    """The ratio round by round with its 95 % interval, which has to reach 0.99."""
    mine, other = case.median(WITH), case.median(WITHOUT)
    if not mine or not other:
        return bench.verdict(False, f"{case.title}: nothing was measured")
    low, high = interval(ratios(case, WITH, WITHOUT))
    met = high >= 0.99
    text = f"{case.title}: {what} with a key {mine / other:.3f} x without, round by round {low:.3f} to {high:.3f} (95 %); wanted 0.99"
    case.targets.append({"text": text, "met": met, "ratio": mine / other, "interval": [low, high], "wanted": 0.99})
    bench.verdict(met, text)


def starts(bench, keys):
    """How long a client takes from its start to its end for one byte, ms, each the median of a round."""
    bench.say("\n## keyed, lo: start to end of one byte")
    path, found = bench.args.netcaliper, {WITH: [], WITHOUT: []}
    place = bench.spaces.place("lo")
    for _ in range(bench.args.rounds):
        for name, key in (WITH, keys), (WITHOUT, None):
            port = bench.port()
            server = Process([*place.server, path, "serve", "--port", port, "--quiet", *words(key)])
            try:
                server.await_listening(port)
                took = []
                for _ in range(STARTS):
                    argv = [*place.client, path, "tcp", place.address, "--port", port, *SHORT, "--json", *words(key)]
                    begun = time.monotonic()
                    done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
                    took.append((time.monotonic() - begun) * 1e3)
                    if bool(key) != json.loads(done.stdout)["points"][0]["sessions"][0]["authenticated"]:
                        return bench.verdict(False, "keyed: the key was not used")
                found[name].append(statistics.median(took))
            finally:
                server.end(0.5)
    more = statistics.median(a - b for a, b in zip(found[WITH], found[WITHOUT]))
    bench.note("keyed", **{"starts_ms": found, "more_ms": more})
    text = f"keyed: a start takes {more:+.2f} ms with a key ({statistics.median(found[WITHOUT]):.1f} ms without); wanted at most {LONGER}"
    bench.verdict(more <= LONGER, text)


def keyed(bench):
    """what a key costs: goodput, connections a second, the time until a run begins"""
    path = bench.args.netcaliper
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, "key")
        subprocess.run([path, "key", "new", key], check=True, stderr=subprocess.DEVNULL)
        for where in bench.args.where:
            for flows in 1, 8:
                case = Case(f"keyed, {where}: {flows} connection{'s' * (flows > 1)}", where, flows, bench.args.seconds)
                bench.compare(case, [lambda: Keyed(path, key), lambda: Keyed(path, None)])
                no_worse(bench, case, "goodput")
            case = Case(f"keyed, {where}: connections", where, 8, bench.args.seconds, unit="conn/s")
            rude = {"verb": "connect", "extra": ["--shutdown", "rude"]}
            bench.compare(case, [lambda: Keyed(path, key, **rude), lambda: Keyed(path, None, **rude)])
            no_worse(bench, case, "connections a second")
        starts(bench, key)


SCENARIOS = (keyed,)
