#!/usr/bin/env python3
"""Runs a program on a terminal of its own that knows what it shows: standard library only.

COLUMNSxROWS STEP [STEP ...] -- PROGRAM ARGUMENTS
Steps are taken in order, each waits for the one before:
  see:TEXT       waits until a line of the screen holds TEXT
  gone:TEXT      waits until none does
  keys:TEXT      types; \\x03 and the like are understood
  size:CxR       changes the size of the terminal, which the program is told (SIGWINCH)
  signal:NAME    sends SIGNAME to the program
  pause:SECONDS  waits so long
  deaf           takes nothing more off the terminal: it fills up, as after Ctrl-S
  hear           takes what is there again
  lines:N:FILE   waits until FILE has N lines more than now
  hangup         takes the terminal away (SIGHUP)
  taken:N        waits until the other screen has been taken N times
  stopped        waits until the program has been stopped, and has it go on
Prints one line of JSON: the exit code; whether the terminal's modes are as before, whether the screen is the first one again, whether
the cursor is shown; what was printed on the first screen, and whether anything of it was coloured or bold; how often the other one was taken; the last of the other one.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = 60
# Control sequences (ECMA-48): parameters, intermediate bytes, the final byte. Others, of one or two characters.
SEQUENCE = re.compile(rb"\x1b\[([\x30-\x3f]*)[\x20-\x2f]*([\x40-\x7e])|\x1b[()][0-9A-B]|\x1b[=>78]")


class Screen:
    """The little of a terminal that matters here: two screens, of which the other one has places."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.other, self.cursor, self.taken = False, True, 0
        self.printed, self.left, self.colors, self.marked = "", b"", False, False
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.at = [0, 0]

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.clear()

    def hear(self, piece):
        self.left += piece
        while self.left:
            if self.left[:1] == b"\x1b":
                found = SEQUENCE.match(self.left)
                if not found:
                    if len(self.left) > 32:
                        raise SystemExit(f"what is {self.left[:32]!r}?")
                    return
                self.control(*found.groups())
                self.left = self.left[found.end():]
                continue
            end = self.left.find(b"\x1b")
            text = self.left if end < 0 else self.left[:end]
            # A character may be cut in two.
            whole = text.decode("utf-8", "ignore")
            used = len(whole.encode())
            if used == 0 and end < 0:
                return
            self.left = self.left[used if end < 0 else end:]
            self.write(whole)

    def control(self, parameters, final):
        parameters, final = (parameters or b"").decode(), (final or b"").decode()
        if final in "hl" and parameters == "?1049":
            self.other = final == "h"
            self.taken += self.other
            self.clear()
        elif final in "hl" and parameters == "?25":
            self.cursor = final == "h"
        elif final == "H" and self.other:
            row, column = (parameters.split(";") + ["1"])[:2] if parameters else ("1", "1")
            self.at = [int(row) - 1, int(column) - 1]
        elif final == "J" and self.other:
            self.clear()
        elif final == "m":
            self.marked |= not self.other
            if any(30 <= int(p or 0) < 50 and p not in ("39", "49") for p in re.split("[;:]", parameters)):
                self.colors |= self.other

    def write(self, text):
        if not self.other:
            self.printed += text
            return
        for character in text:
            row, column = self.at
            if row < self.rows and column < self.columns:
                self.cells[row][column] = character
            self.at[1] += 1


def shell(terminal, news, command):
    """What a shell does: a session whose terminal this is, and the program in a group of its own, in front, that is told
    when the terminal goes. Tells its number, whenever
    it is stopped, and its exit code."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.close(news)
        os.setpgid(0, 0)
        os.tcsetpgrp(terminal, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for n in range(3):
            os.dup2(terminal, n)
        os.execvp(command[0], command)
    signal.signal(signal.SIGHUP, lambda *_: os.killpg(child, signal.SIGHUP))
    os.write(news, b"%d\n" % child)
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.write(news, b"stopped\n")
            continue
        os.write(news, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)


class Run:
    def __init__(self, size, command):
        self.mine, self.theirs = pty.openpty()
        self.screen = Screen(*size)
        self.size(*size)
        self.before = termios.tcgetattr(self.theirs)
        self.gone = False
        self.code, self.halted, self.reading, self.last = None, False, True, []
        here, there = os.pipe()
        if os.fork() == 0:
            os.close(self.mine)
            os.close(here)
            shell(self.theirs, there, command)
        os.close(there)
        self.news, self.told = here, b""
        while b"\n" not in self.told:
            self.told += os.read(here, 64)
        self.child, self.told = int(self.told.split(b"\n")[0]), self.told.split(b"\n", 1)[1]

    def size(self, columns, rows):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def turn(self):
        """A little of the program's life."""
        if self.reading and select.select([self.mine], [], [], 0.02)[0]:
            self.screen.hear(os.read(self.mine, 65536))
            if self.screen.other:
                self.last = self.screen.lines()
        elif not self.reading:
            time.sleep(0.02)
        if self.code is None and select.select([self.news], [], [], 0)[0]:
            self.told += os.read(self.news, 64)
            *lines, self.told = self.told.split(b"\n")
            for line in lines:
                if line == b"stopped":
                    self.halted = True
                else:
                    self.code = int(line)

    def until(self, what, done):
        end = time.monotonic() + PATIENCE
        while not done():
            if self.code is not None or time.monotonic() > end:
                why = f"it ended with {self.code}" if self.code is not None else "time is up"
                raise SystemExit(f"{what}: {why}; the screen:\n" + "\n".join(self.last) + "\n" + self.screen.printed)
            self.turn()

    def step(self, step):
        deed, _, what = step.partition(":")
        holds = lambda: any(what in line for line in self.screen.lines())
        if deed == "see":
            self.until(step, holds)
        elif deed == "gone":
            self.until(step, lambda: not holds())
        elif deed == "keys":
            os.write(self.mine, what.encode().decode("unicode_escape").encode("latin1"))
        elif deed == "size":
            columns, rows = map(int, what.split("x"))
            self.screen.resize(columns, rows)
            self.size(columns, rows)
        elif deed == "pause":
            time.sleep(float(what))
        elif deed in ("signal", "signal?"):
            try:
                os.kill(self.child, getattr(signal, "SIG" + what))
            except ProcessLookupError:
                # The program may have ended before.
                if deed == "signal":
                    raise
        elif deed in ("deaf", "hear"):
            self.reading = deed == "hear"
        elif deed == "lines":
            number, _, path = what.partition(":")
            count = lambda: open(path, "rb").read().count(b"\n")
            wanted = count() + int(number)
            self.until(step, lambda: count() >= wanted)
        elif deed == "taken":
            self.until(step, lambda: self.screen.taken >= int(what))
        elif deed == "hangup":
            os.close(self.mine)
            self.reading, self.gone = False, True
        elif deed == "stopped":
            self.until(step, lambda: self.halted)
            self.halted = False
            while select.select([self.mine], [], [], 0.2)[0]:
                self.screen.hear(os.read(self.mine, 65536))
            self.state = (termios.tcgetattr(self.theirs) == self.before, not self.screen.other)
            os.killpg(self.child, signal.SIGCONT)
        else:
            raise SystemExit(f"what is {step}?")


def main():
    at = sys.argv.index("--")
    run = Run(tuple(map(int, sys.argv[1].split("x"))), sys.argv[at + 1:])
    try:
        for step in sys.argv[2:at]:
            run.step(step)
        run.reading = not run.gone
        end = time.monotonic() + PATIENCE
        while run.code is None and time.monotonic() < end:
            run.turn()
    finally:
        if run.code is None:
            try:
                os.kill(run.child, signal.SIGKILL)
            except ProcessLookupError:
                pass
    while not run.gone and select.select([run.mine], [], [], 0.2)[0]:
        run.screen.hear(os.read(run.mine, 65536))
    screen = run.screen
    print(json.dumps({
        "code": run.code,
        "restored": not run.gone and termios.tcgetattr(run.theirs) == run.before,
        "first": not screen.other,
        "cursor": screen.cursor,
        "printed": screen.printed.replace("\r\n", "\n"),
        "taken": screen.taken,
        "colors": screen.colors,
        "marked": screen.marked,
        "last": run.last,
        "meanwhile": getattr(run, "state", None),
    }), flush=True)


main()
