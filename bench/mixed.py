"""Mixed pairs: our end with a stock iperf3 at the other, beside two stock ends. Ours must never be the slower one."""

import json
import statistics

import tools
from case import Case, interval, ratios

KINDS = {
    "TCP": [],
    "TCP, reverse": ["-R"],
    "TCP, 4 streams": ["-P", "4"],
    "UDP, 1 Gbit/s": ["-u", "-b", "1G", "-l", "1400"],
    "UDP, unlimited": ["-u", "-b", "0", "-l", "1400"],
    "UDP, reverse, unlimited": ["-u", "-b", "0", "-l", "1400", "-R"],
}


class Pair(tools.Tool):
    """A client and a server, each of them one of the two programs."""

    server_ends = True

    def __init__(self, name, server, client, flags):
        super().__init__(name, client[0])
        self.server_words, self.client_words, self.flags = server, client, flags

    def server(self, case, port):
        return [*self.server_words, "-s", "-1", "-p", port], port

    def client(self, case, address, port):
        return [*self.client_words, "-c", address, "-p", port, "-t", case.seconds, "-J", *self.flags]

    def result(self, case, clients, server):
        outcome = json.loads(clients[0].text())
        if "error" in outcome:
            raise ValueError(outcome["error"])
        end = outcome["end"]
        return end["sum_received"]["bits_per_second"] / 1e9


def mixed(bench):
    """our iperf3 client and server, each with a stock iperf3 at the other end, against two stock ends"""
    stock = [bench.given("iperf3_321")] if bench.args.iperf3_321 else [tools.installed("iperf3")]
    ours = [bench.args.netcaliper, "iperf3"]
    for where in bench.args.where:
        for kind, flags in KINDS.items():
            if bench.args.kind and kind not in bench.args.kind:
                continue
            case = Case(f"mixed, {where}: {kind}", where, 1, bench.args.seconds)
            names = ["stock to stock", "our client, stock server", "stock client, our server"]
            pairs = [
                Pair(names[0], stock, stock, flags),
                Pair(names[1], stock, ours, flags),
                Pair(names[2], ours, stock, flags),
            ]
            bench.compare(case, pairs)
            for name in names[1:]:
                found = ratios(case, name, names[0])
                if len(found) < 3:
                    bench.verdict(False, f"{name}: too few undisturbed rounds ({len(found)})")
                    continue
                low, high = interval(found)
                text = f"{name}: {statistics.median(found):.3f} x stock to stock, 95 % interval {low:.3f} to {high:.3f}, {len(found)} rounds"
                bench.verdict(high >= 1.0, f"{text} (wanted: it reaches 1.0)")


SCENARIOS = (mixed,)
