"""Browsers of other origins, and clients of the page that are slow, many, or speak no HTTP."""

import os
import socket
import time

import rig
from rig import attack, must


def serve():
    if not rig.has_http():
        raise rig.Skip("the program was built without the feature http")
    server = rig.Server("--web=127.0.0.1:0")
    return server, int(server.hears(r"http://127\.0\.0\.1:(\d+)").group(1))


def raw(port, data, patience=4):
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as link:
        answer = b""
        try:
            link.sendall(data)
            while len(answer) < 4_000_000:
                more = link.recv(65536)
                if not more:
                    break
                answer += more
        except OSError:
            pass
        return answer


def status(port, path="/run.json", host="127.0.0.1", method="GET", more=""):
    answer = raw(port, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode())
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0, answer


@attack
def other_hosts():
    """Host names that a page elsewhere could bind to this address are refused; this host's own are answered."""
    _, port = serve()
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "2130706433", "0.0.0.0", ""):
        must(status(port, host=host)[0] >= 400, f"Host {host!r} is answered")
    for host in ("localhost", "127.0.0.1", "[::1]", f"localhost:{port}"):
        must(status(port, host=host)[0] == 200, f"Host {host!r} is refused")
    code, answer = status(port, more="Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nOrigin: http://evil.example\r\n")
    must(code >= 400 and b"access-control-allow" not in answer.lower(), f"a page elsewhere is answered {code}")
    for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE"):
        must(status(port, method=method)[0] == 405, f"{method} is answered")


@attack
def paths():
    """Paths out of the site, and with script in them."""
    server, port = serve()
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/history/../../etc/passwd", "/history/-1", "/history/1%27%20OR%201=1--",
                 "/history/<script>alert(1)</script>", "//etc/passwd", "/" + "a" * 60_000):
        code, answer = status(port, path)
        must(code == 0 or code >= 400, f"{path[:40]} is answered {code}")
        must(b"root:" not in answer and b"<script>alert(1)" not in answer, f"{path[:40]}: {answer[:200]}")
    server.intact()


@attack
def no_http():
    """Endless headers, bad chunks, other protocols."""
    server, port = serve()
    for data in (b"A" * 100_000, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
                 b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(50), bytes.fromhex("16030100c8010000c40303") + os.urandom(200),
                 os.urandom(5_000)):
        raw(port, data, 7)
    must(status(port, "/")[0] == 200, "the page is gone")
    server.intact()


@attack
def slow_and_many():
    """200 followers and 150 half requests: a client that measures is served, and the descriptors come back."""
    server, port = serve()
    usual, links = server.descriptors(), []
    for n in range(350):
        try:
            link = socket.create_connection(("127.0.0.1", port), timeout=0.1)
            link.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n" if n < 200 else b"GET / HT")
            links.append(link)
        except OSError:
            pass
    must(server.descriptors() < usual + 150, f"{server.descriptors()} descriptors")
    server.still_serves()
    for link in links:
        link.close()
    end = time.monotonic() + 20
    while server.descriptors() > usual + 2 and time.monotonic() < end:
        time.sleep(0.2)
    must(server.descriptors() <= usual + 2, f"{server.descriptors()} descriptors, {usual} before")
    must(status(port, "/")[0] == 200, "the page is gone")
    server.intact()
