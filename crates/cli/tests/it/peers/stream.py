"""What the peers need of streams; Python's standard library only."""


def exactly(sock, n):
    """n bytes, or what came before the end."""
    got = b""
    while len(got) < n:
        part = sock.recv(n - len(got))
        if not part:
            break
        got += part
    return got
