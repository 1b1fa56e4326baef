"""The scenario of bench/run that holds very many connections open at once: how many there were, what they cost, and how long opening
them took beside the bare loop with as many processes. README.md says how.
"""

import glob
import json
import subprocess
import time

from rig import Process, Skip

# Connections that one process of the bare loop has, as many as one of netcaliper's.
EACH = 14_000
# Connections of a client of netcaliper that may be connecting at the same time (--throttle).
THROTTLE = 1_000
# Length of an interval: each costs some CPU time in every worker process.
INTERVAL = "5s"
# Of the bare loop's time.
WANTED = 1.5
# Of user memory for each connection and end, bytes.
MEMORY = 2_048


def family(pid):
    """A process and its worker processes."""
    found = [pid]
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                fields = f.read().rsplit(")", 1)
            if int(fields[1].split()[1]) == pid:
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def memory(pids):
    """Resident memory of its own that these processes have, bytes."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Private_"))
        except OSError:
            pass
    return total


def kernel():
    """Memory of the kernel's objects and sockets, bytes."""
    with open("/proc/meminfo") as f:
        return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Slab:"))


def in_use():
    """TCP sockets of this machine, in whatever network namespace."""
    with open("/proc/net/sockstat") as f:
        return next(int(line.split()[8]) for line in f if line.startswith("TCP:"))


def ours(bench, place, port, connections):
    """One run of netcaliper; what it told, the time until all were open, and the memory of both ends while they were."""
    path = bench.args.netcaliper
    # Bound to the address, as the bare loop is: IPv4 connections that a socket of IPv6 accepts cost the kernel more.
    words = ["serve", "-B", place.address, "--port", port, "--quiet", "--max-connections", connections]
    server = Process([*place.server, path, *words])
    client = None
    try:
        server.await_listening(port, 60)
        time.sleep(1)
        before = [memory(family(server.pid)), kernel()]
        words = ["connect", place.address, "--port", port, "-P", connections, "--hold", "10s", "-i", INTERVAL, "--json"]
        sockets = in_use()
        begun = time.monotonic()
        client = Process([*place.client, path, *words])
        seconds = held = None
        while client.alive() and time.monotonic() < begun + 900:
            if held is None and in_use() - sockets >= 2 * connections:
                seconds = time.monotonic() - begun
                held = [memory(family(server.pid)), kernel(), memory(family(client.pid))]
            time.sleep(0.1)
        code = client.wait(1)
        if code or held is None:
            raise ValueError(f"exit code {code}: {client.errors().strip()[-300:]}")
        point = json.loads(client.text())["points"][0]
        totals = {"local": point["local"], "remote": point["remote"][0]}
        per = {"server": (held[0] - before[0]) / connections, "client": held[2] / connections, "kernel": (held[1] - before[1]) / connections}
        return {"seconds": seconds, "totals": totals, "per": per}
    finally:
        for process in filter(None, (client, server)):
            process.end(30)


def bare(bench, place, connections):
    """Seconds that the bare loop takes to open as many with as many processes of either end."""
    count = -(-connections // EACH)
    ports = [20_000 + at for at in range(count)]
    # Below the local ports that the system chooses.
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        if int(f.read().split()[0]) < ports[-1]:
            raise Skip("the bare loop's ports are among those that the system chooses")
    share = lambda at: connections // count + (at < connections % count)
    words = lambda at, role: [
        *(place.server if role == "server" else place.client),
        *(bench.args.bare, "hold", "--role", role, "--addr", f"{place.address}:{ports[at]}", "--workers", 1),
        *("--connections", share(at), "--throttle", max(1, THROTTLE // count)),
    ]
    servers = [Process(words(at, "server")) for at in range(count)]
    callers = []
    try:
        for at, server in enumerate(servers):
            server.await_listening(ports[at], 30)
        begun = time.monotonic()
        for at in range(count):
            argv = [str(word) for word in words(at, "client")]
            callers.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        lines = [caller.stdout.readline() for caller in callers]
        took = time.monotonic() - begun
        if not all(lines):
            raise ValueError("a bare loop has failed")
        return took
    finally:
        for caller in callers:
            caller.stdin.close()
            caller.kill()
            caller.wait()
        for server in servers:
            server.end(30)


def held(bench):
    """very many connections open at once: errors, memory, and the time to open them beside the bare loop"""
    n = bench.args.held
    place = bench.spaces.place("lo")
    print(f"\n### held: {n} connections of one client and one server command\n")
    try:
        found, loop = ours(bench, place, bench.port(), n), bare(bench, place, n)
    except (ValueError, KeyError, json.JSONDecodeError) as e:
        return bench.verdict(False, f"held: {type(e).__name__}: {e}")
    for end in "local", "remote":
        totals = found["totals"][end]
        counts = {name: totals[name] for name in ("opened", "peak", "completed")}
        errors = sum(totals[name] for name in ("network_errors", "data_errors", "protocol_errors"))
        met = all(count == n for count in counts.values()) and errors == 0
        bench.verdict(met, f"{end} end: {counts}, {errors} errors")
    verified = found["totals"]["remote"]["traffic"]["rx_bytes"]
    bench.verdict(verified == 64 * n, f"{verified} bytes compared (wanted {64 * n})")
    per = found["per"]
    text = ", ".join(f"{name} {per[name]:.0f}" for name in ("client", "server", "kernel"))
    bench.verdict(max(per["client"], per["server"]) <= MEMORY, f"bytes a connection: {text} (wanted {MEMORY} of either end at most)")
    ratio = found["seconds"] / loop
    text = f"all open after {found['seconds']:.1f} s, {ratio:.2f} x the bare loop's {loop:.1f} s with as many processes (wanted {WANTED})"
    bench.verdict(ratio <= WANTED, text)
    bench.note("held", connections=n, bare_seconds=loop, **found)


SCENARIOS = (held,)
