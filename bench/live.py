"""The scenario of bench/run that asks what the live view costs: goodput, and the 99th percentile of round trips, with it and
without it, in turn. README.md says how.

Both have a terminal of their own that is read (screen.py), and intervals of 100 ms, so that the view draws as often as it ever does
(five times a second).
"""

import os
import sys

import pings
import tools
from case import Case, interval, ratios

SCREEN = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "screen.py")]
WITH, WITHOUT = "with the view", "without"


class Transfer(tools.Ours):
    """netcaliper tcp, shown or not."""

    def __init__(self, path, shown):
        super().__init__(path, extra=["-i", "100ms", "--live" if shown else "--live=never"])
        self.name = WITH if shown else WITHOUT

    def client(self, case, address, port):
        return [*SCREEN, *super().client(case, address, port)]


class Trips(pings.Ours):
    """netcaliper ping, shown or not."""

    def __init__(self, path, shown):
        super().__init__(path, ["-O", pings.WARMUP, "-i", "100ms", "--live" if shown else "--live=never"])
        self.name = WITH if shown else WITHOUT

    def client(self, case, address, port):
        return [*SCREEN, *super().client(case, address, port)]


def no_worse(bench, case, field, what, higher):
    """The ratio of the medians, and that within rounds with its 95 % interval, which has to reach 1."""
    mine, other = case.median(WITH, field), case.median(WITHOUT, field)
    if not mine or not other:
        return bench.verdict(False, f"{case.title}: nothing was measured")
    low, high = interval(ratios(case, WITH, WITHOUT, field))
    met = high >= 1.0 if higher else low <= 1.0
    text = f"{case.title}: {what} with the view {mine / other:.3f} x without, round by round {low:.3f} to {high:.3f} (95 %); "
    text += "wanted no worse"
    case.targets.append({"text": text, "met": met, "ratio": mine / other, "interval": [low, high], "wanted": None})
    bench.verdict(met, text)


def live(bench):
    """what the live view costs: goodput and p99 of round trips with it and without it"""
    seconds, path = bench.args.seconds, bench.args.netcaliper
    for where in bench.args.where:
        for flows in 1, 8:
            case = Case(f"live, {where}: {flows} connection{'s' * (flows > 1)}", where, flows, seconds)
            bench.compare(case, [lambda: Transfer(path, True), lambda: Transfer(path, False)])
            no_worse(bench, case, "value", "goodput", higher=True)
        for tcp in True, False:
            case = pings.Case(f"live, {where}: {'TCP' if tcp else 'UDP'}", where, seconds, pings.two(bench), tcp, False)
            bench.say(f"\n## {case.title}")
            bench.cases.append(case)
            ready = [Trips(path, True), Trips(path, False)]
            try:
                for number in range(bench.args.rounds):
                    for tool in ready:
                        bench.step(tool, case, number)
            finally:
                pings.show(case)
            for field, what in ("value", "p50"), ("p99", "p99"):
                no_worse(bench, case, field, what, higher=False)


SCENARIOS = (live,)
