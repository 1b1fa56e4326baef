#!/usr/bin/env python3
"""Runs a command on a terminal of its own that is read and thrown away, stdout apart: screen.py COMMAND ARGUMENTS.

stderr and the controlling terminal are a pseudo terminal of 120 x 40; stdout and the exit code are the command's.
"""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios

mine, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
child = os.fork()
if child == 0:
    os.close(mine)
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    os.dup2(theirs, 2)
    os.environ["TERM"] = "xterm-256color"
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(theirs)
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
while True:
    try:
        if not os.read(mine, 65536):
            break
    except OSError:
        # The last one who had the terminal has left it.
        break
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
