"""The programs that bench/run compares: how each is started, and where in its output the receiver's figure stands.

A case asks for `flows`, `buffer` (bytes per call; None: the tool's default), `congestion` (None: the system's default),
`cores` (none: the tool's own placement; else worker i of either end runs on the i-th) and `seconds`. A tool that cannot
do what a case asks for says so with Skip.
"""

import json
import os
import re
import shutil

from rig import Skip


class Tool:
    """One program with one set of flags."""

    def __init__(self, name, path):
        self.name, self.path = name, path

    def server(self, case, port):
        """The server's command and the port it listens at; None when the client brings its own."""
        raise NotImplementedError

    def client(self, case, address, port):
        raise NotImplementedError

    def clients(self, case):
        """How many copies of the client run at once."""
        return 1

    def result(self, case, clients, server):
        """Gbit/s as the receiver counted them, or connections per second, from the outputs."""
        raise NotImplementedError

    server_ends = False
    """The server ends by itself, and its output is needed."""


class Ours(Tool):
    """netcaliper with every byte verified, or (`verify="none"`) discarded unread."""

    def __init__(self, path, verify="data", verb="tcp", extra=()):
        names = {("tcp", "data"): "netcaliper", ("tcp", "none"): "netcaliper --verify none"}
        super().__init__(names.get((verb, verify), "netcaliper " + " ".join([verb, *extra])), path)
        self.verify, self.verb, self.extra = verify, verb, list(extra)

    @staticmethod
    def _cores(case):
        return ["--affinity", ",".join(map(str, case.cores))] if case.cores else []

    def server(self, case, port):
        return [self.path, "serve", "--port", port, "--quiet", *self._cores(case)], port

    def client(self, case, address, port):
        words = [self.path, self.verb, address, "--port", port, "-t", f"{case.seconds}s", "-P", case.flows, "--json"]
        words += self._cores(case) + self.extra
        if case.congestion:
            words += ["-C", case.congestion]
        if self.verb == "tcp":
            words += ["--verify", self.verify]
            words += ["-l", case.buffer] if case.buffer else []
        return words

    def result(self, case, clients, server):
        outcome = json.loads(clients[0].text())
        point = outcome["points"][0]
        chosen = re.search(r"send buffers of (\d+) KiB", " ".join(map(str, outcome["notices"])))
        case.sndbuf = int(chosen[1]) * 1024 if chosen else None
        near = point["local"]
        errors = sum(near[k] for k in ("network_errors", "data_errors", "protocol_errors"))
        if point["status"] != "complete" or errors:
            raise ValueError(f"status {point['status']}, {errors} failed connections: {near['causes']}")
        if self.verb == "connect":
            return near["completed"] * 1e9 / near["traffic"]["ns"]
        return point["up"]["goodput_bps"] / 1e9


class Bare(Tool):
    """The bare loop, with the send buffer and on the cores that netcaliper chose in the run before."""

    server_ends = True

    def __init__(self, path, verify="compare", job="stream", close="rst"):
        super().__init__(f"bare {verify}" if job == "stream" else f"bare connect ({close})", path)
        self.verify, self.job, self.close = verify, job, close
        self.server_ends = job == "stream"

    def _words(self, case, role, address, port):
        workers = min(os.cpu_count() or 1, case.flows)
        words = [self.path, self.job, "--role", role, "--addr", f"{address}:{port}", "--connections", case.flows]
        words += ["--workers", workers, "--seconds", case.seconds]
        cores = case.cores or (sorted(os.sched_getaffinity(0)) if workers > 1 else [])
        if cores:
            words += ["--cores", ",".join(map(str, cores))]
        if case.congestion:
            words += ["--congestion", case.congestion]
        if case.sndbuf:
            words += ["--sndbuf", case.sndbuf]
        if self.job == "connect":
            return words + ["--close", self.close]
        return words + ["--verify", self.verify, "--buffer", case.buffer or 256 * 1024]

    def server(self, case, port):
        return self._words(case, "server", "0.0.0.0", port), port

    def client(self, case, address, port):
        return self._words(case, "client", address, port)

    def result(self, case, clients, server):
        if self.job == "connect":
            return json.loads(clients[0].text())["conn_s"]
        return json.loads(server.text())["gbit_s"]


class Iperf3(Tool):
    server_ends = True

    def __init__(self, name, path, flags=()):
        super().__init__(" ".join([name, *flags]), path)
        self.flags = list(flags)

    def server(self, case, port):
        return [self.path, "-s", "-1", "-p", port], port

    def client(self, case, address, port):
        words = [self.path, "-c", address, "-p", port, "-t", case.seconds, "-P", case.flows, "-J", *self.flags]
        words += ["-l", case.buffer] if case.buffer else []
        return words + (["-C", case.congestion] if case.congestion else [])

    def result(self, case, clients, server):
        outcome = json.loads(clients[0].text())
        if "error" in outcome:
            raise ValueError(outcome["error"])
        return outcome["end"]["sum_received"]["bits_per_second"] / 1e9


class Iperf2(Tool):
    """Its server prints what it received; line buffered, or it would be lost with the server."""

    def server(self, case, port):
        words = [self.path, "-s", "-p", port, "-f", "m"] + (["-l", case.buffer] if case.buffer else [])
        return (["stdbuf", "-oL", *words] if shutil.which("stdbuf") else words), port

    def client(self, case, address, port):
        words = [self.path, "-c", address, "-p", port, "-t", case.seconds, "-P", case.flows, "-f", "m"]
        words += ["-l", case.buffer] if case.buffer else []
        return words + (["-Z", case.congestion] if case.congestion else [])

    def result(self, case, clients, server):
        line = r"^\[ *(SUM|\d+)\] +0\.0+-.*?([\d.]+) Mbits/sec"
        found = re.findall(line, server.text(), re.M)
        sums = [float(rate) for name, rate in found if name == "SUM"]
        return (sums[-1] if sums else sum(float(rate) for _, rate in found)) / 1e3


class Nuttcp(Tool):
    """Version 6 cannot choose the congestion control."""

    def server(self, case, port):
        return [self.path, "-S", "--nofork", f"-P{port}"], port

    def client(self, case, address, port):
        if case.congestion:
            raise Skip("cannot choose the congestion control")
        words = [self.path, f"-P{port}", f"-p{port + 1}", f"-T{case.seconds}", "-fparse"]
        words += [f"-l{case.buffer}"] if case.buffer else []
        return words + ([f"-N{case.flows}"] if case.flows > 1 else []) + [address]

    def result(self, case, clients, server):
        return float(re.search(r"rate_Mbps=([\d.]+)", clients[0].text())[1]) / 1e3


class Neper(Tool):
    """tcp_stream, or tcp_crr with so many threads and flows."""

    def __init__(self, path, job="tcp_stream", threads=None, flows=None, flags=()):
        name = f"neper {job}" + (f" -T{threads} -F{flows}" if flows else "")
        super().__init__(" ".join([name, *flags]), os.path.join(path, job))
        self.job, self.threads, self.flows, self.flags = job, threads, flows, list(flags)

    def _threads(self, case):
        return self.threads or min(os.cpu_count() or 1, case.flows)

    def server(self, case, port):
        words = [self.path, "-C", port, "-P", port + 1, "-T", self._threads(case), *self.flags]
        return words + (["-B", case.buffer] if case.buffer and not self.flows else []), port

    def client(self, case, address, port):
        words = [self.path, "-c", "-H", address, "-C", port, "-P", port + 1, "-l", int(case.seconds)]
        words += ["-T", self._threads(case), "-F", self.flows or case.flows]
        if self.flows:
            return words
        words += ["-B", case.buffer] if case.buffer else []
        return words + ([f"--congestion-control={case.congestion}"] if case.congestion else [])

    def result(self, case, clients, server):
        if self.flows:
            return float(re.search(r"^throughput=([\d.]+)", clients[0].text(), re.M)[1])
        return float(re.search(r"^remote_throughput=([\d.]+)", clients[0].text(), re.M)[1]) / 1e9


class Netperf(Tool):
    """One process for each flow; their rates are added."""

    def __init__(self, path, job="TCP_STREAM", copies=None):
        super().__init__(f"netperf {job}" + (f" x{copies}" if copies else ""), os.path.join(path, "netperf"))
        self.netserver = os.path.join(path, "netserver")
        self.job, self.copies = job, copies

    def server(self, case, port):
        return [self.netserver, "-D", "-p", port], port

    def clients(self, case):
        return self.copies or case.flows

    def client(self, case, address, port):
        words = [self.path, "-H", address, "-p", port, "-t", self.job, "-l", case.seconds, "-P", "0", "--"]
        if self.job == "TCP_CRR":
            return words + ["-r", "1,1", "-k", "THROUGHPUT"]
        words += ["-m", case.buffer, "-M", case.buffer] if case.buffer else []
        return words + (["-K", case.congestion] if case.congestion else []) + ["-k", "THROUGHPUT"]

    def result(self, case, clients, server):
        rates = [float(re.search(r"THROUGHPUT=([\d.]+)", c.text())[1]) for c in clients]
        return sum(rates) / (1 if self.job == "TCP_CRR" else 1e3)


class Ethr(Tool):
    def server(self, case, port):
        return [self.path, "-s", "-no", "-port", port], port

    def client(self, case, address, port):
        if case.congestion:
            raise Skip("cannot choose the congestion control")
        words = [self.path, "-c", address, "-no", "-port", port, "-d", f"{int(case.seconds)}s", "-n", case.flows]
        return words + (["-l", f"{case.buffer // 1024}KB"] if case.buffer else [])

    def result(self, case, clients, server):
        """Its rates are per second and rounded, and the client's own: the best it says. The last second is the fullest."""
        units = {"K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
        line = r"^\[ *(SUM|\d+)\] +TCP +\S+ sec +([\d.]+)([KMGT])"
        found = [(name, float(rate) * units[unit]) for name, rate, unit in re.findall(line, clients[0].text(), re.M)]
        rates = [rate for name, rate in found if name == "SUM"] or [rate for _, rate in found]
        return sorted(rates)[len(rates) // 2]


class Xfr(Tool):
    def server(self, case, port):
        return [self.path, "serve", "--no-mdns", "-p", port], port

    def client(self, case, address, port):
        words = [self.path, address, "-p", port, "-t", f"{int(case.seconds)}s", "-P", case.flows, "--json"]
        return words + (["--congestion", case.congestion] if case.congestion else [])

    def result(self, case, clients, server):
        return json.loads(clients[0].text())["throughput_mbps"] / 1e3


def installed(name):
    """The path of a program that Debian packages."""
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is not installed")
    return path
