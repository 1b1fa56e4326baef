"""A server that listens for every protocol, its clients, and floods of silent connections."""

import os
import time

import rig
from rig import must

# What each protocol's own client does in a moment, and the longest that this takes beside an attack, s: 3 s more than without.
GOOD = {
    "native": ("ping -n 3", 3),
    "iperf3": ("tcp --protocol iperf3 -t 1s", 4.5),
    "ctstraffic": ("tcp --protocol ctstraffic -t 1s", 4.5),
    "ttcp": ("tcp --protocol ttcp -t 1s", 4.5),
    "ntttcp": ("tcp --protocol ntttcp -t 1s", 5.5),
    "tcpmon": ("tcp --protocol tcpmon -t 1s", 4.5),
    "echo": ("ping --protocol echo -n 3 --rate 10", 3.5),
    "discard": ("tcp --protocol discard -t 1s", 4.5),
    "chargen": ("tcp --protocol chargen -R -t 1s", 4.5),
}


def with_descriptors(count):
    return ["sh", "-c", f'ulimit -n {count}; exec "$0" "$@"']


class EveryPort:
    """A server of every protocol that knows connections, with so many descriptors; a port for each. The attack itself needs some."""

    def __init__(self, descriptors, *words, needs=0, bind="127.0.0.1"):
        if "NETCALIPER_ATTACKS_ALONE" not in os.environ:
            raise rig.Skip("needs the usual ports, and so a network namespace of its own")
        if rig.most_descriptors() < needs:
            raise rig.Skip(f"needs {needs:,} open files (ulimit -n)")
        self.host = bind
        self.server = rig.Server("--legacy", "all", *words, before=with_descriptors(descriptors), bind=bind)
        self.ports = {"native": self.server.port}
        for name in GOOD:
            if name != "native":
                port = int(self.server.hears(rf"(?m)^ *{name} +[^ ]*:(\d+)").group(1))
                # The first port of ntttcp is that of its conversation.
                self.ports[name] = port + (name == "ntttcp")

    def at(self, name):
        """Where this protocol's clients find it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.ports[name]}"

    def clients(self, names=GOOD):
        """Each protocol's client in turn: it is served in time."""
        slowest = 0
        for name in names:
            words, longest = GOOD[name]
            verb, *more = words.split()
            began = time.monotonic()
            code = None
            # A client that is turned away tries again, and is in within 3 s.
            while code != 0 and (code is None or time.monotonic() < began + 3):
                code, out, err = rig.client(verb, self.at(name), *more, "-q", patience=30)
            took = time.monotonic() - began
            must(code == 0, f"a client of {name} ends with {code} after {took:.1f} s: {(err or out)[-300:]}")
            must(took < longest, f"a client of {name} took {took:.1f} s")
            slowest = max(slowest, took)
        self.server.intact()
        return slowest


def flood(port, count, addresses, says=b""):
    """So many connections of these addresses, held open; of some bytes each, where `says` has any."""
    links = []
    for n in range(count):
        links.append(rig.silent(f"127.0.9.{n % addresses + 9}", port))
        if n % 200 == 199:
            time.sleep(0.02)
    if says:
        time.sleep(0.2)
        for link in links:
            try:
                link.send(says)
            except OSError:
                pass
    return links


def close_all(links):
    for link in links:
        link.close()
