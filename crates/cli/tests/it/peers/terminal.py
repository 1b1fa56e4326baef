#!/usr/bin/env python3
"""Runs a program on a terminal of its own and types: standard library only.

WORD KEYS [WORD KEYS ...] -- PROGRAM ARGUMENTS   waits for each WORD, then types KEYS (\\n is Enter, ^C interrupts)
Prints all that the program has shown, then one line of JSON: its exit code, and whether the terminal shows what is typed
again and gives it line by line, as it did before.
"""
import json
import os
import pty
import select
import sys
import termios


def main():
    at = sys.argv.index("--")
    script, command = sys.argv[1:at], sys.argv[at + 1:]
    mine, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)[3]
    child = os.fork()
    if child == 0:
        os.close(mine)
        os.login_tty(theirs) if hasattr(os, "login_tty") else login(theirs)
        os.execvp(command[0], command)
    shown, seen = b"", 0
    while True:
        ready, _, _ = select.select([mine], [], [], 0.1)
        if ready:
            piece = os.read(mine, 65536)
            shown += piece
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        while script and script[0].encode() in shown[seen:]:
            seen = shown.index(script[0].encode(), seen) + len(script[0])
            keys = script[1].replace("\\n", "\n").replace("^C", "\x03")
            os.write(mine, keys.encode())
            script = script[2:]
    while select.select([mine], [], [], 0.2)[0]:
        shown += os.read(mine, 65536)
    after = termios.tcgetattr(theirs)[3]
    print(shown.decode("utf-8", "replace").replace("\r\n", "\n"))
    print(json.dumps({"code": os.waitstatus_to_exitcode(status), "restored": before == after}), flush=True)


def login(fd):
    """As login_tty(3), where the library has none: a session of its own, whose terminal this is."""
    os.setsid()
    import fcntl
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
    for n in range(3):
        os.dup2(fd, n)


main()
