"""Peers that never introduce themselves, from few addresses and from many, keep no other client out."""

import os
import random
import socket
import threading
import time

import rig
from every import EveryPort, GOOD, close_all, flood, with_descriptors
from rig import attack, must

MEMORY_MB = 256


def several_clients(server, count=3):
    for _ in range(count):
        server.still_serves()


@attack
def ten_thousand_half_open():
    """10,000 connections from 50 addresses, half of them with half a preamble: a new address is served, memory below 256 MB."""
    if rig.most_descriptors() < 11_000:
        raise rig.Skip("needs 11,000 open files (ulimit -n)")
    server = rig.Server()
    links = []
    for n in range(10_000):
        links.append(rig.silent(f"127.0.9.{n % 50 + 1}", server.port))
        if n % 100 == 99:
            time.sleep(0.005)
    for link in links[::2]:
        try:
            link.send(rig.preamble()[:11])
        except OSError:
            pass
    several_clients(server)
    server.intact()
    memory = server.memory_mb()
    must(memory < MEMORY_MB, f"{memory:.0f} MB")
    alive = sum(still_open(link) for link in links)
    for link in links:
        link.close()
    return f"{memory:.0f} MB, {alive} of 10,000 still open"


def still_open(link):
    try:
        return link.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@attack
def silent_from_one_address():
    """600 silent connections from the client's own address, always renewed: the client is served."""
    rig.most_descriptors()
    server = rig.Server()
    over = threading.Event()

    def renew():
        links = []
        while not over.is_set():
            links.append(rig.silent("127.0.0.1", server.port))
            if len(links) > 600:
                links.pop(0).close()
            time.sleep(0.001)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        time.sleep(2)
        several_clients(server)
    finally:
        over.set()
        thread.join()
    server.intact()
    return ""


def flooded(every, count, addresses, others, says=b""):
    """Floods each port in turn; clients of its protocol and of others are let in meanwhile. Returns the descriptors of each flood."""
    told = {}
    for name, port in every.ports.items():
        links = flood(port, count, addresses, says)
        every.clients({name, *others})
        told[name] = every.server.descriptors()
        close_all(links)
    return told


@attack
def silent_at_every_port():
    """5,000 silent connections of one address to each port in turn, 4,096 descriptors: every protocol's client is in within 3 s."""
    every = EveryPort(4_096, needs=6_000)
    slowest = every.clients()
    told = flooded(every, 5_000, 1, ("native", "discard", "iperf3"))
    links = flood(every.ports["chargen"], 5_000, 1)
    slowest = max(slowest, every.clients())
    close_all(links)
    most = max(told.values())
    must(most < 3_000, f"{most} descriptors of 4,096 for silent peers: {told}")
    return f"descriptors: {told}; slowest {slowest:.1f} s"


@attack
def half_open_at_every_port():
    """10,000 half-open connections of 50 addresses to each port in turn: every protocol's client is in within 3 s."""
    told = flooded(EveryPort(4_096, needs=11_000), 10_000, 50, ("native",), rig.preamble()[:11])
    return f"descriptors: {told}"


@attack
def silent_at_every_port_with_few_descriptors():
    """1,000 silent connections to each port with 300 descriptors: native clients are served."""
    every = EveryPort(300, needs=2_000)
    for port in every.ports.values():
        links = flood(port, 1_000, 1)
        every.clients({"native"})
        close_all(links)
    return ""


@attack
def silent_at_the_ports_of_worker_processes():
    """5,000 silent connections of one address to the port of each worker process: clients of many connections are served."""
    if rig.most_descriptors() < 6_000:
        raise rig.Skip("needs 6,000 open files (ulimit -n)")
    server = rig.Server("--processes", "2", before=with_descriptors(4_096))
    first, last = map(int, server.hears(r"ports\s+of\s+their\s+own\s+from\s+(\d+)\s+to\s+(\d+)").groups())
    for port in {first, last}:
        links = flood(port, 5_000, 1)
        code, out, err = rig.client("connect", server.at, "-P", "100", "--hold", "1s", patience=30)
        must(code == 0, f"a client of 100 connections ends with {code}: {(err or out)[-300:]}")
        close_all(links)
    server.intact()
    return ""


@attack
def lines_of_every_port():
    """1,500 connections with and without rubbish to each port: less than 2 kB a second is written."""
    every = EveryPort(4_096)
    before, began = len(every.server.text()), time.monotonic()
    for port in every.ports.values():
        for says in (b"", os.urandom(200), b"GET / HTTP/1.0\r\n\r\n", b"a" * 37):
            for n in range(1_500):
                with socket.socket() as link:
                    link.settimeout(1)
                    link.bind((f"127.0.{n % 200}.7", 0))
                    try:
                        link.connect(("127.0.0.1", port))
                        link.sendall(says)
                    except OSError:
                        pass
    time.sleep(1.5)
    written, took = len(every.server.text()) - before, time.monotonic() - began
    must(written < 4_000 + 2_000 * took, f"{written} bytes in {took:.0f} s")
    must("more lines about peers" in every.server.text(), "the lines that were left out are not counted")
    every.clients({"native"})
    return f"{written} bytes in {took:.0f} s for {1_500 * 4 * len(every.ports)} connections"


@attack
def held_connections_outlive_a_flood():
    """Connections that move nothing but are registered, of native and iperf3, beside 5,000 silent ones at each port: none is lost."""
    every = EveryPort(4_096, needs=6_000)
    held = rig.start("connect", every.server.at, "-P", "200", "--hold", "14s", "--json")
    talk = socket.create_connection(("127.0.0.1", every.ports["echo"]))
    talk.sendall(b"x")
    must(talk.recv(1) == b"x", "echo answers")
    time.sleep(1)
    links = []
    for name in ("native", "echo", "discard"):
        links += flood(every.ports[name], 1_600, 1)
    code, out, err = rig.end(held)
    must(code == 0, f"held connections end with {code}: {(err or out)[-300:]}")
    talk.sendall(b"y")
    must(talk.recv(1) == b"y", "an idle connection of echo was lost")
    close_all(links)
    return ""


@attack
def denied_addresses():
    """4,500 connections from an address that --deny names: the others are served."""
    rig.most_descriptors()
    server = rig.Server("--deny", "127.0.7.0/24")
    links = [rig.silent("127.0.7.1", server.port) for _ in range(4_500)]
    several_clients(server)
    server.intact()
    must(server.descriptors() < 1_000, f"{server.descriptors()} descriptors for denied peers")
    for link in links:
        link.close()
    return ""


@attack
def sessions_that_never_start_measuring():
    """250 control links with a good hello and 100 delay sessions that send nothing: below 256 MB together."""
    rig.most_descriptors()
    server = rig.Server()
    before = server.memory_mb()
    links = []
    for n in range(250):
        link = rig.control(server.port)
        rig.hello(link)
        links.append(link)
    clients = [rig.start("delay", server.at, "-t", "20s", "-b", "1k") for _ in range(100)]
    time.sleep(8)
    memory = server.memory_mb()
    must(memory < MEMORY_MB, f"{before:.0f} MB before, {memory:.0f} MB")
    server.intact()
    for process in clients:
        process.kill()
    return f"{before:.0f} MB before, {memory:.0f} MB"


@attack
def sources_of_datagrams():
    """6,000 sources each at STAMP and UDPmon with 300 descriptors: native clients are served, and it is told at once."""
    server = rig.Server("--legacy", "stamp:0,udpmon:0", before=["sh", "-c", 'ulimit -n 300; exec "$0" "$@"'])
    stamp = int(server.hears(r"stamp +[^ ]*:(\d+)").group(1))
    udpmon = int(server.hears(r"udpmon +[^ ]*:(\d+)").group(1))
    data = random.Random(1)
    for port in (stamp, udpmon):
        for n in range(6_000):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
                source.bind((f"127.1.{n // 250}.{n % 250 + 1}", 0))
                source.sendto(bytes(44) if port == stamp else data.randbytes(100), ("127.0.0.1", port))
    several_clients(server)
    server.intact()
    return f"{server.descriptors()} descriptors, {server.error_bytes()} bytes on stderr"


@attack
def descriptors_run_out():
    """A server with 200 descriptors and 400 silent connections: a client that measures goes on, and a new one is served after."""
    server = rig.Server(before=["sh", "-c", 'ulimit -n 200; exec "$0" "$@"'])
    measuring = rig.start("tcp", server.at, "-P", "1", "-t", "6s", "-b", "20M", "--json")
    time.sleep(1.5)
    links = [rig.silent(f"127.0.8.{n % 40 + 1}", server.port) for n in range(400)]
    code, out, err = rig.end(measuring)
    must(code == 0, f"the client that measures ends with {code}: {(err or out)[-300:]}")
    rate = rig.goodput(out)
    must(rate > 18e6, f"{rate / 1e6:.1f} of 20 Mbit/s beside the flood")
    for link in links:
        link.close()
    several_clients(server, 1)
    return f"{rate / 1e6:.1f} of 20 Mbit/s beside it"


@attack
def a_client_that_vanishes():
    """A client that stops without a word frees its session within 10 s."""
    server = rig.Server("--max-sessions", "1") if "--max-sessions" in rig.client("serve", "--help")[1] else rig.Server()
    process = rig.start("tcp", server.at, "-t", "60s", "-b", "1M")
    time.sleep(2)
    held = server.descriptors()
    os.kill(process.pid, 19)
    began = time.monotonic()
    while server.descriptors() >= held and time.monotonic() < began + 20:
        time.sleep(0.1)
    took = time.monotonic() - began
    os.kill(process.pid, 18)
    must(took < 11, f"{took:.1f} s")
    server.still_serves()
    return f"{took:.1f} s"


@attack
def spoken_rubbish():
    """300 connections a round send rubbish and go, for 10 rounds: clients are served, stderr stays small."""
    rig.most_descriptors()
    server = rig.Server()
    for _ in range(10):
        links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        for link in links:
            try:
                link.sendall(os.urandom(200))
            except OSError:
                pass
            link.close()
    server.still_serves()
    server.intact()
    must(server.error_bytes() < 200_000, f"{server.error_bytes()} bytes on stderr")
    return f"{server.error_bytes()} bytes on stderr"
