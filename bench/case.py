"""What is asked of all tools of one table, what they found, and how it is shown."""

import statistics


class Case:
    """What is asked of all tools of one table."""

    def __init__(self, title, where, flows, seconds, buffer=None, congestion=None, cores=(), unit="Gbit/s"):
        self.title, self.where, self.flows, self.seconds = title, where, flows, seconds
        self.buffer, self.congestion, self.cores, self.unit = buffer, congestion, list(cores), unit
        self.sndbuf = None
        self.runs = {}
        self.skipped = {}
        self.targets = []

    def clean(self, tool):
        """The runs that count, and whether they were undisturbed."""
        good = [r for r in self.runs.get(tool, []) if "value" in r]
        calm = [r for r in good if r["clean"]]
        return (calm, True) if calm else (good, False)

    def median(self, tool, field="value"):
        values = [r[field] for r in self.clean(tool)[0] if r.get(field) is not None]
        return statistics.median(values) if values else None

    def as_json(self):
        keep = ("title", "where", "flows", "seconds", "buffer", "congestion", "cores", "unit", "sndbuf", "skipped", "targets")
        outcome = {key: getattr(self, key) for key in keep}
        outcome["tools"] = {
            tool: {"median": self.median(tool), "cpu": self.median(tool, "cpu"), "runs": runs}
            for tool, runs in self.runs.items()
        }
        return outcome


def quantile(spectrum, q):
    """The value at this quantile of a distribution as outcomes keep it, ns."""
    rank, seen = q * spectrum["count"], 0
    for value, n in spectrum["counts"]:
        seen += n
        if seen >= rank:
            return value
    return spectrum["max"]


def ratios(case, ours, other, field="value"):
    """The ratios within the rounds in which both were undisturbed, sorted."""
    found = {name: {run["round"]: run[field] for run in case.clean(name)[0] if run.get(field)} for name in (ours, other)}
    return sorted(found[ours][n] / found[other][n] for n in found[ours] if n in found[other])


def interval(values):
    """The 95 % interval of the median of sorted `values`: those whose ranks a fair coin passes in 2.5 % of cases at most."""
    n, below, ways, k = len(values), 0.0, 1.0, 0
    if not n:
        return float("nan"), float("nan")
    while below + ways / 2**n <= 0.025:
        below += ways / 2**n
        k += 1
        ways = ways * (n - k + 1) / k
    return values[max(0, k - 1)], values[min(n - 1, n - k)]


def show(case):
    """The table of a case."""
    per = "CPU s/GB" if case.unit == "Gbit/s" else "CPU us each"
    loses = case.unit == "datagrams/s"
    more, line = (" lost |", "---:|") if loses else ("", "")
    print(f"\n### {case.title}\n\n| tool | median {case.unit} | lowest - highest |{more} {per} | of the first | n |")
    print(f"|---|---:|---:|{line}---:|---:|---:|")
    first = None
    for name, runs in case.runs.items():
        used, calm = case.clean(name)
        if not used:
            print(f"| {name} | failed | | {'| ' * loses}| | 0/{len(runs)} |")
            continue
        middle, cpu = case.median(name), case.median(name, "cpu")
        first = first or middle
        values = [r["value"] for r in used]
        digits = 1 if case.unit == "Gbit/s" else 0
        cpu_text = "" if cpu is None else f"{cpu:.3f}" if case.unit == "Gbit/s" or loses else f"{cpu:.1f}"
        lost = f" {case.median(name, 'loss') * 100:.2g} % |" if loses else ""
        print(
            f"| {name} | {middle:.{digits}f}{'' if calm else '*'} | {min(values):.{digits}f} - {max(values):.{digits}f} "
            f"|{lost} {cpu_text} | {middle / first:.2f} | {len(used)}/{len(runs)} |"
        )
    for name, why in case.skipped.items():
        print(f"skipped: {name}: {why}" if name != why else f"skipped: {why}")
    print(flush=True)
