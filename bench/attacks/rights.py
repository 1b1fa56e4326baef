"""The rights of every kind of key bound its clients, and the orders of its controllers; ceilings of an agent bound every order."""

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
import uuid

import rig
from limits import RATE, Path
from rig import attack, must

RIGHTS = {
    "alice": "rate=10M time=2s",
    "bob": "bytes=1M",
    "carol": "verbs=ping",
    "dave": "exclusive=no",
}


def secret(name, text):
    path = os.path.join(tempfile.mkdtemp(dir=rig.SCRATCH.name), name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o600)
    return path


def drawn(byte):
    return "netcaliper-psk-1:" + f"{byte:02x}" * 32


class Shared:
    """Named keys that both ends have."""

    def __init__(self, rights):
        lines = {name: f"{name} {drawn(0x40 + n)}" for n, name in enumerate([*rights, "nobody"])}
        self.server = ["--psk-file", secret("keys", "".join(f"{lines[name]} {text}\n" for name, text in rights.items()))]
        self.clients = {name: ["--psk-file", secret(name, line + "\n")] for name, line in lines.items()}
        # The name of one key with the text of another.
        self.clients["forged"] = ["--psk-file", secret("forged", f"alice {drawn(0x42)}\n")]


class Pairs:
    """Pairs of keys: each end has one, and the public key of the other."""

    def __init__(self, rights):
        folder = tempfile.mkdtemp(dir=rig.SCRATCH.name)
        file = lambda name: os.path.join(folder, name)  # noqa: E731
        new = lambda *words: rig.client("key", "new", "--pair", *words)[1].split()  # noqa: E731
        public, lines, self.clients = new(file("server"))[-1], "", {}
        for name in [*rights, "nobody", "forged"]:
            line = " ".join(new("--name", name if name != "forged" else "alice", file(name))[-2:])
            lines += f"{line} {rights[name]}\n" if name in rights else ""
            self.clients[name] = ["--key-file", file(name), "--server-key", public]
        self.server = ["--key-file", file("server"), "--client-keys", secret("clients", lines)]


def every_kind(function):
    """The attack with each kind of key, without and with worker processes."""
    told = []
    for kind in (Shared, Pairs):
        for words in ((), ("--processes", "2")):
            told.append(function(kind(RIGHTS), words) or "")
            rig.end_all()
    return "; ".join(filter(None, told))


# Most that a key with a rate may ask for.
GREEDY = ["tcp -R -P 4", "tcp -P 2 --pattern duplex", "ping --flood -l 60000 --no-baseline", "ping -u --flood -l 1400 --no-baseline",
          "delay -b 0 -R"]


@attack
def rate_and_time_of_a_key():
    """Two sessions of one key at once, of every greedy question, have its rate together, each for its time."""
    def run(keys, words):
        path, most = Path(), 0
        server = rig.Server("-p", "7411", *keys.server, *words, bind=Path.V4)
        for question in GREEDY:
            verb, *more = question.split()
            with path.counted() as moved:
                line = [verb, f"{Path.V4}:7411", *more, "-t", "4s", "-q", *keys.clients["alice"]]
                ends = [rig.end(client) for client in [rig.start(*line, before=path.inside) for _ in range(2)]]
            ratio = moved[0] / (2 * RATE / 8)
            must(ratio <= 1.1, f"{question}: {ratio:.2f} of the key's rate for its time was sent: {ends}")
            # One has all of the rate, and the other is refused, or both have a part.
            must(any(code == 0 for code, _, _ in ends), f"{question}: {ends}")
            most = max(most, ratio)
            time.sleep(0.3)
        server.intact()
        return f"{most:.2f} of the rate for the time"
    return every_kind(run)


@attack
def bytes_of_a_key():
    """A key with bytes=1M has these in all its sessions of a day, at once and in turn, and then nothing."""
    def run(keys, words):
        path = Path()
        rig.Server("-p", "7411", *keys.server, *words, bind=Path.V4)
        line = ["tcp", f"{Path.V4}:7411", "-P", "2", "-t", "3s", "-q", *keys.clients["bob"]]
        with path.counted() as moved:
            ends = [rig.end(client) for client in [rig.start(*line, "-R", before=path.inside) for _ in range(3)]]
            ends += [rig.client(*line, before=path.inside) for _ in range(2)]
        must(moved[0] <= 1.1e6 + 100e3, f"{moved[0]} bytes were sent for a key with 1,000,000 a day")
        must(all(code in (1, 4) for code, _, _ in ends) and ends[-1][0] == 1, f"{ends}")
        # What a session had taken and not moved is left over.
        must("for today" in ends[-1][2] or "a day" in ends[-1][2], f"{ends[-1]}")
        return f"{moved[0]} bytes sent"
    return every_kind(run)


@attack
def verbs_of_a_key():
    """A key for ping gets no other verb and ends no server; one with exclusive=no excludes nobody; names, keys and public keys are not exchanged."""
    def run(keys, words):
        server = rig.Server(*keys.server, *words)
        ask = lambda name, verb, *more: rig.client(verb, server.at, *more, *keys.clients[name])  # noqa: E731
        must(ask("carol", "ping", "-n", "3")[0] == 0, "carol may ask for ping")
        for verb in ("tcp", "connect", "delay", "stream", "train"):
            code, _, err = ask("carol", verb, *([] if verb == "train" else ["-t", "1s"]))
            must(code == 1 and "is not for" in err, f"carol asks for {verb}: {code}: {err[-300:]}")
        code, _, err = ask("dave", "tcp", "-t", "1s", "--exclusive")
        must(code == 1 and "exclude" in err, f"dave excludes others: {code}: {err[-300:]}")
        code, _, err = ask("carol", "stop")
        must(code == 1 and "is not for stop" in err, f"carol stops the server: {code}: {err[-300:]}")
        for name in ("nobody", "forged"):
            must(ask(name, "ping", "-n", "3")[0] == 1, f"{name} is served")
        must(rig.client("ping", server.at, "-n", "3")[0] == 1, "a client without a key is served")
        must(rig.client("stop", server.at)[0] == 1, "a client without a key stops the server")
        server.intact()
    return every_kind(run)


class Agent:
    """An agent over its standard input and output, and a controller that means no good."""

    def __init__(self, *words, key=drawn(0x5B)):
        spool = tempfile.mkdtemp(dir=rig.SCRATCH.name)
        self.process = subprocess.Popen(
            [rig.PROGRAM, "agent", "--stdio", "--port", "0", "--resource", spool, "--spool", os.path.join(spool, "runs"), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=rig.environment(), text=True)
        rig.RUNNING.append(self.process)
        self.run, self.said = str(uuid.uuid4()), queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.began = time.monotonic()
        self.order({"hello": {"version": 1, "epoch": 1, "key": key, "now": 0, "patience_ns": 600 * 10**9}})

    def read(self):
        for line in self.process.stdout:
            self.said.put(json.loads(line)["message"])

    def order(self, message):
        self.process.stdin.write(json.dumps({"run": self.run, "epoch": 1, "message": message}) + "\n")
        self.process.stdin.flush()

    def now(self):
        return int((time.monotonic() - self.began) * 1e9)

    def test(self, task, question, port, kind="background", seconds=8):
        verb, *words = question.split()
        self.order({"run": {"attempt": {"task": task, "number": 1}, "class": kind, "until": self.now() + int(seconds * 1e9),
                            "verb": verb, "arguments": words, "target": {"host": "127.0.0.1", "port": port}}})

    def answers(self, count, patience):
        """The next answers about tests: these end them, or refuse them."""
        found, until = [], time.monotonic() + patience
        while len(found) < count and time.monotonic() < until:
            try:
                message = self.said.get(timeout=0.2)
            except queue.Empty:
                continue
            if isinstance(message, dict) and set(message) & {"ended", "refused", "busy"}:
                found.append(message)
        return found


def loopback():
    return rig.device_bytes("lo", "tx")


# Orders that want more than a ceiling of 8 Mbit/s, or words that mean it.
UNBOUNDED = """
tcp -b 0 -t 2s|tcp --rate=0 -P 1 -t 2s|tcp -b 1M --rate 0 -t 1s|tcp -t 1s --rate 1k -P 100000|delay -b 0 -t 2s|delay --pps nan -t 1s
delay --pps 0 -t 1s|delay --spacing 0ns -l 64 -t 1s|ping --rate nan -t 1s|ping --rate 0 -t 1s|ping --rate inf -t 1s|ping --flood -l 60000 -t 1s
ping -u --flood -l 1400 -t 1s|ping -l 0 -t 1s --rate 1000000|ping --rate 0.0001 -P 100000 -t 1s|tcp -t inf|tcp -t 0 -b 1k
tcp -n 100G -b 1k -P 1|tcp -t 1s -b 1e0|tcp -t 1s -P 18446744073709551615|delay --size 64..1400 -t 1s|delay --flows 100000 --pps 1 -l 64 -t 1s
train -t 1s|load -t 1s|tcp -t 1s|tcp -R -t 1s|tcp -t 1s --pattern duplex
"""


@attack
def ceilings_of_an_agent():
    """Every order that means more than --max-rate 8M is refused, or moves no more than that."""
    server = rig.Server(NETCALIPER_PSK=drawn(0x5B))
    agent = Agent("--max-rate", "8M", "--max-time", "5s", "--target", "127.0.0.1")
    refused, most = 0, 0
    orders = [order.strip() for order in UNBOUNDED.replace("\n", "|").split("|") if order.strip()]
    for task, order in enumerate(orders):
        before, began = loopback(), time.monotonic()
        agent.test(task, order, server.port)
        answers = agent.answers(1, 12)
        took, moved = time.monotonic() - began, loopback() - before
        must(answers, f"{order}: nothing was answered")
        refused += "refused" in answers[0]
        # Both directions cross the loopback, and the conversation.
        rate = max(0, moved - 100_000) * 8 / max(took, 1)
        must(rate <= 2 * 1.15 * 8e6, f"{order}: {rate / 1e6:.1f} Mbit/s over both directions: {str(answers[0])[:300]}")
        most = max(most, rate)
        # Tests of the same host exclude each other until they have ended.
        time.sleep(0.1)
    must(most > 2e6, f"no order was carried out: {most / 1e6:.1f} Mbit/s")
    return f"{refused} of {len(orders)} refused, at most {most / 1e6:.1f} Mbit/s over both directions"


@attack
def class_of_an_order():
    """17 floods at once that call themselves background share the agent's --max-rate, and its --max-share counts them."""
    server = rig.Server(NETCALIPER_PSK=drawn(0x5B))
    agent = Agent("--max-rate", "8M", "--max-time", "5s", "--target", "127.0.0.1")
    before, began = loopback(), time.monotonic()
    for task in range(17):
        agent.test(task, "tcp -t 2s", server.port)
    answers = agent.answers(17, 20)
    rate = (loopback() - before) * 8 / (time.monotonic() - began)
    must(len(answers) == 17 and 0.5 * 8e6 <= rate <= 1.15 * 8e6, f"{len(answers)} answers, {rate / 1e6:.1f} Mbit/s: {str(answers)[:300]}")
    rig.end_all()
    server = rig.Server(NETCALIPER_PSK=drawn(0x5B))
    agent = Agent("--max-rate", "8M", "--max-share", "0.005", "--target", "127.0.0.1")
    for task, kind in enumerate(("exclusive", "background", "limited")):
        agent.test(task, "tcp -t 4s", server.port, kind)
        must("refused" in agent.answers(1, 12)[0], f"4 s of the 3 s that --max-share leaves, as {kind}, are not refused")
    return f"{rate / 1e6:.1f} of 8 Mbit/s"


@attack
def runs_without_a_drawn_key():
    """A controller whose run has no key, or one that can be guessed, gets no server."""
    for key in (None, "", "abc", "longenoughkey", "netcaliper-psk-1:00"):
        agent = Agent("--target", "127.0.0.1", key=key)
        agent.order({"reserve": {"attempt": {"task": 5, "number": 1}, "class": "background", "until": 30 * 10**9}})
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            try:
                message = agent.said.get(timeout=0.2)
            except queue.Empty:
                continue
            must("reserved" not in message, f"the key {key!r}: {message}")


@attack
def words_of_an_order():
    """Orders with files, addresses, devices, keys, shell words, and options as hosts: none runs, and no file is written."""
    bait = os.path.join(rig.SCRATCH.name, "bait")
    agent = Agent()
    words = [f"--html {bait}", f"--save={bait}", "-B 127.0.0.1", "--bind-dev lo", "-- --json", "--psk-file /etc/passwd", "--affinity 0",
             "--web 0.0.0.0:1", f"--store {bait}", "-t $(id)", "-t 1s;id", f"--trace {bait}", "10.0.0.1", "--sweep rate=1M..1G",
             "--server-key x", "-l=../../etc", "--at-most 100G"]
    orders = [f"{verb} {more}" for verb in ("ping", "tcp", "delay", "train", "load") for more in words]
    for task, order in enumerate(orders):
        agent.test(task, order, 1)
    answers = agent.answers(len(orders), 20)
    must(len(answers) == len(orders) and all("refused" in answer for answer in answers),
         f"{[str(answer)[:200] for answer in answers if 'refused' not in answer][:5]} of {len(answers)}")
    must(not os.path.exists(bait), "a file was written")
    return f"{len(orders)} refused"


class Fleet:
    """Two servers that take orders of keys with rights."""

    HOSTS = ("127.0.0.2", "127.0.0.3")

    def __init__(self, *words):
        self.keys = Shared({"alice": "", "bob": "verbs=fleet,ping rate=1M time=1s exclusive=no", "carol": "verbs=ping"})
        self.folder = tempfile.mkdtemp(dir=rig.SCRATCH.name)
        self.hosts = os.path.join(self.folder, "hosts")
        with open(self.hosts, "w") as file:
            file.write("\n".join(self.HOSTS))
        for host in self.HOSTS:
            server = rig.Server("--fleet", "127.0.0.0/8", "--fleet-port", "7412", *self.keys.server, *words, bind=host,
                                XDG_STATE_HOME=os.path.join(self.folder, host))
            server.hears("takes orders of fleets on")

    def ask(self, verb, key, *words, state="state", start=False, patience=60):
        line = ["fleet", verb, *words, "--direct", "--agent-port", "7412", *self.keys.clients[key]]
        env = {"XDG_STATE_HOME": os.path.join(self.folder, state)}
        return rig.start(*line, **env) if start else rig.client(*line, patience=patience, **env)

    def runs(self, state="state"):
        return os.path.join(self.folder, state, "netcaliper", "runs")


@attack
def rights_of_a_controller():
    """Orders of a controller whose key has rights: what these do not allow is refused, and what runs keeps them."""
    for words in ((), ("--processes", "2")):
        fleet = Fleet(*words)
        code, out, err = fleet.ask("run", "carol", fleet.hosts, "--test", "ping -n 3")
        must(code == 1, f"a key without the right gives orders: {code}: {(err or out)[-300:]}")
        for test in ("tcp -t 1s", "delay -t 1s", "load -t 1s", "ping --rate 1000 -l 1400 -t 1s", "ping --flood -t 1s", "ping -t 5s --rate 10"):
            before, began = loopback(), time.monotonic()
            code, out, err = fleet.ask("run", "bob", fleet.hosts, "--test", test)
            rate = (loopback() - before) * 8 / (time.monotonic() - began)
            must(code == 1 and "refused" in out + err, f"bob orders {test}: {code}: {(err or out)[-400:]}")
            must(rate < 2e6, f"bob orders {test}: {rate / 1e6:.1f} Mbit/s")
        code, out, err = fleet.ask("run", "bob", fleet.hosts, "--test", "ping -n 3")
        must(code == 0, f"bob orders what he may: {code}: {(err or out)[-400:]}")
        rig.end_all()


@attack
def runs_of_another_key():
    """A controller that knows the folder of another key's run resumes it: it hears nothing, ends nothing, and takes no result away."""
    fleet = Fleet()
    mine = fleet.ask("run", "alice", fleet.hosts, "--test", "ping -t 4s --rate 20 --no-baseline", start=True)
    folder = None
    for _ in range(100):
        time.sleep(0.05)
        names = os.listdir(fleet.runs()) if os.path.isdir(fleet.runs()) else []
        folder = next((os.path.join(fleet.runs(), name) for name in names), None)
        if folder:
            break
    must(folder, "alice's run has no folder")
    time.sleep(1.5)
    mine.kill()
    mine.wait()
    theirs, changed = os.path.join(fleet.runs("other"), os.path.basename(folder)), 0
    shutil.copytree(folder, theirs)
    for name in os.listdir(theirs):
        path = os.path.join(theirs, name)
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            changed += text.count(fleet.keys.clients["alice"][1])
            file.write(text.replace(fleet.keys.clients["alice"][1], fleet.keys.clients["bob"][1]))
    must(changed, "the folder of a run does not name its key")
    resume = lambda run, state: rig.client("fleet", "resume", run, XDG_STATE_HOME=os.path.join(fleet.folder, state))  # noqa: E731
    code, out, err = resume(theirs, "other")
    must(code == 1 and "0 of 2 tests" in out + err, f"bob resumes: {code}: {(out + err)[-500:]}")
    code, out, err = resume(folder, "state")
    must(code == 0, f"alice resumes: {code}: {(out + err)[-500:]}")
    return "bob has none of alice's results, alice all"
