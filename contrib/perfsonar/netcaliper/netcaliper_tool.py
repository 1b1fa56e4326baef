"""netcaliper as a tool of pScheduler: what each of the plugin's programs does.

pScheduler calls a program of the plugin with JSON on stdin and reads JSON from its stdout. All measuring is `netcaliper`'s; this module
makes the command line from a test's specification, and the test's result from the JSON document of the run.
"""

import configparser
import json
import subprocess

import pscheduler

CONFIG = "/etc/pscheduler/tool/netcaliper.conf"
# Ports of the protocols that a single-ended test may find.
PROTOCOLS = {5201: "iperf3", 4444: "ctstraffic"}
# Seconds of set-up and end beside the test's own time: name resolution, agreement, totals over a queue of seconds.
SETUP = 6
# A server waits this long for its client, and goes on for its totals, seconds.
LINGER = 15

COMMON = {"schema", "source", "source-node", "dest", "dest-node", "ip-tos", "ip-version"}
OPTIONS = {
    "throughput": COMMON | {"duration", "interval", "link-rtt", "parallel", "udp", "bandwidth", "window-size", "mss", "buffer-length",
                            "local-address", "omit", "no-delay", "congestion", "flow-label", "single-ended", "single-ended-port", "reverse"},
    "rtt": COMMON | {"count", "interval", "length", "ttl", "flow-label", "timeout", "port", "protocol"},
    "latency": COMMON | {"protocol", "packet-count", "packet-interval", "packet-padding", "packet-timeout", "bucket-width", "reverse"},
}


def config():
    """Settings of this host: the program, the port of servers that the plugin starts."""
    read = configparser.ConfigParser()
    read.read(CONFIG)
    section = read["netcaliper"] if read.has_section("netcaliper") else {}
    return {"program": section.get("program", "netcaliper"), "port": int(section.get("port", 7411))}


def seconds(duration, default):
    """An ISO 8601 duration as seconds."""
    if duration is None:
        return default
    return pscheduler.timedelta_as_seconds(pscheduler.iso8601_as_timedelta(duration))


def iso(ns):
    """ns as an ISO 8601 duration."""
    return f"PT{ns / 1e9:.9f}S"


def reasons(kind, spec):
    """Why the tool cannot run a test; empty where it can."""
    if kind not in OPTIONS:
        return [f"netcaliper has no test of the type {kind}"]
    found = [f"netcaliper does not support {name} in a {kind} test" for name in sorted(set(spec) - OPTIONS[kind])]
    protocol = spec.get("protocol")
    if kind == "rtt" and protocol not in (None, "netcaliper", "stamp", "twamp"):
        found.append(f"round trips over {protocol} are not supported: netcaliper, stamp or twamp")
    if kind == "latency" and protocol not in (None, "netcaliper"):
        found.append(f"one-way latency over {protocol} is not supported: netcaliper")
    if kind == "throughput" and spec.get("udp") and not spec.get("bandwidth"):
        found.append("UDP needs a bandwidth")
    return found


def length(kind, spec):
    """Seconds of the test itself."""
    if kind == "throughput":
        return seconds(spec.get("duration"), 10) + seconds(spec.get("omit"), 0)
    if kind == "rtt":
        return spec.get("count", 5) * seconds(spec.get("interval"), 1) + seconds(spec.get("timeout"), 1)
    return spec.get("packet-count", 100) * spec.get("packet-interval", 0.1) + spec.get("packet-timeout", 0)


def address(spec, port):
    """The server as a target of the command line."""
    host = spec["dest"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def sockets(spec):
    """Options of sockets that all tests share."""
    words = []
    if "ip-version" in spec:
        words.append(f"-{spec['ip-version']}")
    if "ip-tos" in spec:
        words += ["--dscp", str(spec["ip-tos"] >> 2)]
    return words


def number(value):
    return f"{value:.9f}".rstrip("0").rstrip(".")


def command(kind, spec, port):
    """The client's command line, without the program."""
    protocol = None
    if kind == "throughput":
        verb = "delay" if spec.get("udp") else "tcp"
        if spec.get("single-ended"):
            port = spec.get("single-ended-port", port)
            protocol = PROTOCOLS.get(port)
        words = ["-t", number(length(kind, spec)) + "s", "-P", str(spec.get("parallel", 1))]
        words += ["-i", number(seconds(spec.get("interval"), 1)) + "s"]
        options = {"bandwidth": "-b", "window-size": "-w", "mss": "-M", "congestion": "-C", "flow-label": "--flow-label", "local-address": "-B"}
        if not spec.get("udp"):
            options["buffer-length"] = "-l"
        elif "buffer-length" in spec:
            words += ["-l", str(spec["buffer-length"])]
        words += [word for name, option in options.items() if name in spec for word in (option, str(spec[name]))]
        words += ["-O", number(seconds(spec["omit"], 0)) + "s"] if "omit" in spec else []
        words += ["--nodelay", "on"] if spec.get("no-delay") else []
        words += ["-R"] if spec.get("reverse") else ["--up"] if verb == "delay" else []
    elif kind == "rtt":
        verb, gap = "ping", seconds(spec.get("interval"), 1)
        words = ["-u", "-n", str(spec.get("count", 5)), "--rate", number(1 / gap), "-i", "1s"]
        words += ["-l", str(spec["length"])] if "length" in spec else []
        words += ["--ttl", str(spec["ttl"])] if "ttl" in spec else []
        words += ["--timeout", number(seconds(spec["timeout"], 1)) + "s"] if "timeout" in spec else []
        if spec.get("protocol") in ("stamp", "twamp"):
            protocol, port = "stamp", spec.get("port", 862)
        else:
            port = spec.get("port", port)
    else:
        verb, count, gap = "delay", spec.get("packet-count", 100), spec.get("packet-interval", 0.1)
        # 14 bytes are the payload of the smallest OWAMP packet; the padding comes on top.
        words = ["--pps", number(1 / gap), "-t", number(count * gap) + "s", "-l", str(max(64, 14 + spec.get("packet-padding", 0)))]
        words += ["-R"] if spec.get("reverse") else ["--up"]
    words += sockets(spec) + (["--protocol", protocol] if protocol else [])
    return [verb, address(spec, port), *words, "--json", "--no-store"]


def direction(interval, way):
    """Bytes and bits/s of an interval in a direction, by the receiver where its count is known."""
    ends = [("remote", "rx_bytes", "rx_ns"), ("local", "tx_bytes", "tx_ns")]
    if way == "down":
        ends = [("local", "rx_bytes", "rx_ns"), ("remote", "tx_bytes", "tx_ns")]
    for end, count, time in ends:
        traffic = interval.get(end)
        if traffic:
            ns = traffic.get(time) or traffic["ns"] or 1
            return traffic[count], traffic[count] * 8e9 / ns
    return 0, 0.0


def throughput(point, spec):
    way = "down" if spec.get("reverse") else "up"
    figures = point[way] or {"received_bytes": 0, "goodput_bps": 0.0, "sent_bps": 0.0}
    report = (point["remote"][0] if way == "up" and point["remote"] else point["local"]).get("packets") if spec.get("udp") else None

    def row(bytes_, bits, start, end, **more):
        return {"stream-id": "SUM", "start": start, "end": end, "throughput-bytes": bytes_, "throughput-bits": bits, **more}

    intervals = []
    for one in point["intervals"]:
        moved, bits = direction(one, way)
        more = {"omitted": True} if one.get("omitted") else {}
        if not spec.get("udp"):
            more["retransmits"] = one.get("retransmits")
        intervals.append({"streams": [], "summary": row(moved, bits, one["start_ns"] / 1e9, one["end_ns"] / 1e9, **more)})
    end = point["intervals"][-1]["end_ns"] / 1e9 if point["intervals"] else 0.0
    more = {"receiver-throughput-bits": figures["goodput_bps"]}
    if report:
        counts = report["counts"]
        more.update({"sent": counts["received"] + max(counts["lost"], 0), "lost": max(counts["lost"], 0)})
        more["jitter"] = report["jitter_ns"] and report["jitter_ns"] / 1e6
    else:
        sender = point["local"] if way == "up" else (point["remote"] or [{}])[0]
        more["retransmits"] = sender.get("tcp", {}).get("retransmits")
    streams = [row(one["tx_bytes"] + one["rx_bytes"], (one["tx_bytes"] + one["rx_bytes"]) * 8e9 / max(one["duration_ns"], 1), 0.0,
                   one["ended_ns"] / 1e9) | {"stream-id": number_} for number_, one in enumerate(point["connections"])]
    return {"schema": 1, "intervals": intervals,
            "summary": {"streams": streams, "summary": row(figures["received_bytes"], figures["sent_bps"], 0.0, end, **more)}}


def rtt(point, _spec):
    pings = point["local"]["pings"]
    counts, times = pings["counts"], pings["rtt_ns"]
    lost = max(counts["lost"], 0)
    result = {"schema": 1, "roundtrips": [], "sent": counts["sent"], "received": counts["received"], "lost": lost,
              "duplicates": counts["repeated"], "loss": lost / counts["sent"] if counts["sent"] else 0.0}
    if times:
        result.update({"min": iso(times["min"]), "max": iso(times["max"]), "mean": iso(times["mean"]), "stddev": iso(times["sd"])})
    return result


def latency(point, spec):
    reports = [point["local"]] if spec.get("reverse") else point["remote"]
    report = reports[0]["packets"]
    counts, delay = report["counts"], report["delay_ns"]
    width = float(spec.get("bucket-width", 0.001))
    histogram = {}
    # Upper bounds of the distribution's buckets.
    for value, count in (delay or {"buckets": []})["buckets"]:
        if not count:
            continue
        key = f"{value / 1e9 / width:.2f}"
        histogram[key] = histogram.get(key, 0) + count
    ttl = report["marks"]["ttl"]
    return {"schema": 1, "packets-sent": counts["received"] + max(counts["lost"], 0), "packets-received": counts["received"],
            "packets-lost": max(counts["lost"], 0), "packets-duplicated": counts["duplicated"], "packets-reordered": counts["reordered"],
            "max-clock-error": (report["clock_bound_ns"] or 0) / 1e6, "histogram-latency": histogram,
            "histogram-ttl": {str(ttl[0]): counts["received"]} if ttl and ttl[0] == ttl[1] else {}}


RESULTS = {"throughput": throughput, "rtt": rtt, "latency": latency}


def has_server(kind, spec):
    """True if the second participant runs a server for the test."""
    return kind != "rtt" and not spec.get("single-ended")


def can_run(given):
    kind, spec = given.get("type"), given.get("spec")
    found = ["the test has no type"] if kind is None else ["the test has no specification"] if spec is None else reasons(kind, spec)
    return {"can-run": not found, **({"reasons": found} if found else {})}


def duration(given):
    whole = length(given["type"], given["spec"]) + SETUP
    return {"duration": f"PT{int(-(-whole // 1))}S"}


def participant_data(given):
    return {"port": config()["port"]} if given.get("participant") == 1 else {}


def failure(error, diags):
    return {"succeeded": False, "error": error, "diags": diags, "result": None}


def run(given):
    kind, spec, settings = given["test"]["type"], given["test"]["spec"], config()
    start = given["schedule"]["start"]
    limit = length(kind, spec) + SETUP + LINGER
    if given["participant"] == 1:
        words = [settings["program"], "serve", "-p", str(settings["port"]), "--store", "off", "-q"]
        # The server is there before its client, and is ended by its time: `timeout` exits with 124.
        status, out, err = call(["timeout", "--signal=INT", str(limit), *words], limit + LINGER)
        if status not in (0, 124, 130):
            return failure(err.strip() or out.strip(), " ".join(words))
        return {"succeeded": True, "diags": out, "error": None, "result": {"schema": 1, "succeeded": True}}
    pscheduler.sleep_until(start)
    data = given.get("participant-data") or [{}]
    port = data[1].get("port", 7411) if has_server(kind, spec) and len(data) > 1 else settings["port"]
    words = [settings["program"], *command(kind, spec, port)]
    status, out, err = call(words, limit)
    diags = f"{' '.join(words)}\n\n{err}"
    try:
        document = json.loads(out)
    except ValueError:
        return failure(err.strip().splitlines()[-1] if err.strip() else f"netcaliper ended with {status}", diags)
    point = document["points"][-1] if document["points"] else None
    if document["status"] == "failed" or point is None:
        return failure(document["reason"] or err.strip(), diags)
    result = {"succeeded": True, "diags": diags, **RESULTS[kind](point, spec)}
    # Caveats say which figures not to trust; the test's schema has no place for them but here.
    result["diags"] += "".join(f"{one['level']}: {one['code']}: {one['text']}\n" for one in point["caveats"])
    return {"succeeded": True, "diags": result["diags"], "error": None, "result": result}


def call(words, limit):
    """Exit code, stdout and stderr of a program."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit + LINGER, check=False)
    except FileNotFoundError:
        return 127, "", f"{words[0]} was not found: name it in {CONFIG}"
    except subprocess.TimeoutExpired:
        return 124, "", f"{words[0]} did not end within {limit + LINGER:.0f} s"
    return done.returncode, done.stdout, done.stderr


def merged_results(given):
    """The client's result is that of the test: it has both ends' counts."""
    results = given.get("results") or []
    first = results[0] if results else None
    if not first:
        return {"succeeded": False, "error": "the client sent no result"}
    return first.get("result") or {"succeeded": False, "error": first.get("error"), "diags": first.get("diags", "")}


def main(step):
    pscheduler.succeed_json(step(pscheduler.json_load(exit_on_error=True)))
