"""liar.py FILE MODE …: an agent whose reports are lies of this mode, on its standard input and output. FILE has an outcome."""
import json, sys

mode = sys.argv[2]
with open(sys.argv[1], encoding="utf-8") as file:
    base = json.load(file)
NIL = "00000000-0000-0000-0000-000000000000"
EVIL = "\x1b[31m\x9b\u202e"


def say(run, message):
    print(json.dumps({"run": run, "message": message}), flush=True)


def ending(order):
    number = order["attempt"]["task"] + 1
    base["begin"]["run"] = f"00000000-0000-4000-8000-{number:012x}"
    match mode:
        case "empty":
            return {"measured": {}}
        case "forged":
            return {"measured": {"forged": 1}}
        case "list":
            return {"measured": [1]}
        case "verb":
            base["begin"]["verb"] = "tcp"
        case "protocol":
            base["begin"]["protocol"] = "iperf3"
        case "noverb":
            base["begin"]["verb"] = ""
        case "kind":
            base["points"][0]["phase"]["kind"] = "tcp"
        case "command":
            base["begin"]["command"] = ["netcaliper", "ping", "10.0.0.1"]
        case "damaged":
            base["points"][0]["connections"] = "many"
        case "failed":
            base["status"], base["reason"] = "failed", "nothing came back" + EVIL
        case "partial":
            base["status"] = "partial"
        case "nothing":
            point = base["points"][0]
            point["intervals"], point["remote"] = [], []
            point["local"] = {"opened": 1, "pings": {"counts": {"sent": 5, "lost": 5}}}
        case "same":
            base["begin"]["run"] = "00000000-0000-4000-8000-0000000000ff"
            base["reason"] = str(number)
        case "cancelled" | "not_measured_yet" | "unreachable_by_design":
            return {"missing": {"reason": mode}}
        case "names":
            for host in (base["begin"]["host"], base["points"][0]["sessions"][0]["host"]):
                host["name"] = EVIL + host["name"]
    return {"measured": base}


say(NIL, {"hello": {"version": 1, "program": "liar"}})
for line in sys.stdin:
    order = json.loads(line)
    run, message = order["run"], order["message"]
    if message == "bye":
        break
    kind, order = next(iter(message.items()))
    if kind == "hello":
        say(run, {"ready": {"resource": " ".join(sys.argv[2:]), "held_ns": 0}})
    elif kind == "reserve":
        say(run, {"reserved": {"attempt": order["attempt"], "port": 9}})
    elif kind == "run":
        say(run, {"ended": {"attempt": order["attempt"], "ending": ending(order)}})
    elif kind == "alive":
        say(run, "alive")
