#!/usr/bin/env python3
"""Takes a picture of a page that goes on: shoot.py URL WIDTHxHEIGHT SCRIPT OUT.png

Waits until SCRIPT, asked of the page ten times a second, is true. Chromium is spoken to over pipes (its DevTools protocol, messages
that end with a zero byte): standard library only.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--no-first-run"]
PATIENCE = 120


class Browser:
    def __init__(self, profile):
        (theirs, self.out), (self.into, back) = os.pipe(), os.pipe()

        def wire():
            # Chromium reads what it is asked from 3 and answers on 4.
            os.dup2(theirs, 10), os.dup2(back, 11)
            os.dup2(10, 3), os.dup2(11, 4)

        command = ["chromium", *FLAGS, f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            command, preexec_fn=wire, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs), os.close(back)
        self.left, self.count, self.session = b"", 0, None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.left:
                piece = os.read(self.into, 1 << 20)
                if not piece:
                    raise SystemExit("chromium has gone")
                self.left += piece
            told, self.left = self.left.split(b"\0", 1)
            told = json.loads(told)
            if told.get("id") == self.count:
                if "error" in told:
                    raise SystemExit(f"{method}: {told['error']}")
                return told["result"]

    def says(self, script):
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def shoot(self, path):
        data = self.ask("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))


def main():
    url, size, script, path = sys.argv[1:]
    width, height = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            browser.ask(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            browser.ask("Page.navigate", url=url)
            end = time.monotonic() + PATIENCE
            while not browser.says(script):
                if time.monotonic() > end:
                    raise SystemExit(f"{script} was never true")
                time.sleep(0.1)
            browser.shoot(path)
        finally:
            browser.process.kill()
            browser.process.wait()


if __name__ == "__main__":
    main()
