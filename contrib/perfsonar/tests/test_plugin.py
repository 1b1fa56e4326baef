"""The plugin's programs by their interface: JSON in, JSON out, against the program over loopback.

NETCALIPER names the program; the tests of measurements are skipped without it.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
PLUGIN = HERE.parent / "netcaliper"
sys.path[:0] = [str(HERE), str(PLUGIN)]
import netcaliper_tool  # noqa: E402

PROGRAM = os.environ.get("NETCALIPER")


def call(program, given):
    """What a program of the plugin answers."""
    env = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([PLUGIN / program], input=json.dumps(given), capture_output=True, text=True, env=env, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def server(*words):
    line = [PROGRAM, "serve", "--bind", "127.0.0.1", "-p", "0", "--store", "off", *words]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        ports = {}
        for text in process.stdout:
            found = re.match(r"(?:listening|answering (\S+)) on 127\.0\.0\.1:(\d+)", text)
            if found:
                ports[found[1] or "native"] = int(found[2])
            if len(ports) > len(words) // 2:
                break
        yield ports
    finally:
        process.terminate()
        process.communicate()


class Interface(unittest.TestCase):
    def test_the_tool_names_its_tests(self):
        done = subprocess.run([PLUGIN / "enumerate"], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["tests"], list(netcaliper_tool.OPTIONS))

    def test_what_cannot_run_has_its_reasons(self):
        good = {"type": "throughput", "spec": {"schema": 1, "dest": "h", "duration": "PT5S", "parallel": 2, "reverse": True}}
        self.assertEqual(call("can-run", good), {"can-run": True})
        for given, reason in [
            ({"type": "trace", "spec": {}}, "netcaliper has no test of the type trace"),
            ({"type": "throughput"}, "the test has no specification"),
            ({"type": "throughput", "spec": {"dest": "h", "zero-copy": True}}, "netcaliper does not support zero-copy in a throughput test"),
            ({"type": "throughput", "spec": {"dest": "h", "udp": True}}, "UDP needs a bandwidth"),
            ({"type": "rtt", "spec": {"dest": "h", "protocol": "icmp"}}, "round trips over icmp are not supported: netcaliper, stamp or twamp"),
        ]:
            self.assertEqual(call("can-run", given), {"can-run": False, "reasons": [reason]})

    def test_durations_cover_set_up_and_end(self):
        for kind, spec, least in [("throughput", {"dest": "h", "duration": "PT1M", "omit": "PT2S"}, 62), ("rtt", {"dest": "h", "count": 10}, 11),
                                  ("latency", {"dest": "h", "packet-count": 600}, 60)]:
            whole = int(re.fullmatch(r"PT(\d+)S", call("duration", {"type": kind, "spec": spec})["duration"])[1])
            self.assertEqual(whole, least + netcaliper_tool.SETUP)

    def test_command_lines(self):
        def line(kind, port=7411, **spec):
            return " ".join(netcaliper_tool.command(kind, {"dest": "h", **spec}, port))

        self.assertEqual(line("throughput", duration="PT5S", parallel=4, reverse=True), "tcp h:7411 -t 5s -P 4 -i 1s -R --json --no-store")
        self.assertIn("h:5201", iperf3 := line("throughput", **{"single-ended": True, "single-ended-port": 5201}))
        self.assertIn("--protocol iperf3", iperf3)
        udp = line("throughput", udp=True, bandwidth=1000000, **{"ip-tos": 184})
        self.assertEqual(udp, "delay h:7411 -t 10s -P 1 -i 1s -b 1000000 --up --dscp 46 --json --no-store")
        self.assertEqual(line("rtt", count=3, interval="PT0.2S", protocol="twamp"), "ping h:862 -u -n 3 --rate 5 -i 1s --protocol stamp --json --no-store")
        self.assertIn("[2001:db8::1]:7411", " ".join(netcaliper_tool.command("rtt", {"dest": "2001:db8::1"}, 7411)))

    def test_a_merged_result_is_the_clients(self):
        self.assertEqual(call("merged-results", {"results": [{"succeeded": True, "result": {"a": 1}}, {"result": {}}]}), {"a": 1})
        failed = {"succeeded": False, "error": "refused", "diags": "", "result": None}
        self.assertEqual(call("merged-results", {"results": [failed]})["error"], "refused")


@unittest.skipUnless(PROGRAM, "NETCALIPER does not name the program")
class Measurements(unittest.TestCase):
    def run_test(self, kind, at, participants=2, **spec):
        given = {"schedule": {"start": "2020-01-01T00:00:00Z"}, "participant": 0, "participant-data": [{}, {"port": at}][:participants],
                 "test": {"type": kind, "spec": {"dest": "127.0.0.1", **spec}}}
        with mock.patch.object(netcaliper_tool, "config", return_value={"program": PROGRAM, "port": at}):
            done = netcaliper_tool.run(given)
        self.assertTrue(done["succeeded"], done)
        return done["result"]

    def test_throughput_both_ways_and_over_udp(self):
        with server() as ports:
            for spec in [{}, {"reverse": True}, {"udp": True, "bandwidth": 1_000_000}]:
                result = self.run_test("throughput", ports["native"], duration="PT2S", parallel=1, **spec)
                summary = result["summary"]["summary"]
                self.assertGreater(summary["throughput-bits"], 900_000)
                moved = sum(one["summary"]["throughput-bytes"] for one in result["intervals"])
                self.assertGreater(moved, 0.9 * summary["throughput-bytes"])
                self.assertLessEqual(moved, 1.001 * summary["throughput-bytes"])
                self.assertEqual("lost" in summary, "udp" in spec)

    def test_servers_of_iperf3_are_measured_from_one_end(self):
        with server("--legacy", "iperf3:0") as ports, mock.patch.dict(netcaliper_tool.PROTOCOLS, {ports["iperf3"]: "iperf3"}):
            result = self.run_test("throughput", 7411, participants=1, duration="PT1S", **{"single-ended": True, "single-ended-port": ports["iperf3"]})
        self.assertGreater(result["summary"]["summary"]["throughput-bytes"], 0)

    def test_round_trips_natively_and_of_stamp(self):
        with server("--legacy", "stamp:0") as ports:
            for spec in [{"port": ports["native"]}, {"port": ports["stamp"], "protocol": "stamp"}]:
                result = self.run_test("rtt", 7411, participants=1, count=5, interval="PT0.05S", **spec)
                self.assertEqual((result["sent"], result["received"], result["loss"]), (5, 5, 0))
                low, mean, high = (float(result[name][2:-1]) for name in ("min", "mean", "max"))
                self.assertTrue(0 < low <= mean <= high)

    def test_latency_has_a_histogram_of_all_packets(self):
        with server() as ports:
            for reverse in ({}, {"reverse": True}):
                result = self.run_test("latency", ports["native"], **{"packet-count": 100, "packet-interval": 0.01, **reverse})
                self.assertEqual(result["packets-received"] + result["packets-lost"], result["packets-sent"])
                self.assertEqual(sum(result["histogram-latency"].values()), result["packets-received"])
                self.assertEqual(list(result["histogram-ttl"].values()), [result["packets-received"]])

    def test_a_refused_test_has_the_programs_sentence(self):
        given = {"schedule": {"start": ""}, "participant": 0, "participant-data": [{}],
                 "test": {"type": "rtt", "spec": {"dest": "127.0.0.1", "port": 1, "count": 1}}}
        with mock.patch.object(netcaliper_tool, "config", return_value={"program": PROGRAM, "port": 7411}):
            done = netcaliper_tool.run(given)
        self.assertFalse(done["succeeded"])
        self.assertIn("refused", done["error"])

    def test_the_configuration_names_program_and_port(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file, mock.patch.object(netcaliper_tool, "CONFIG", file.name):
            file.write("[netcaliper]\nprogram = /opt/netcaliper\nport = 7500\n")
            file.flush()
            self.assertEqual(netcaliper_tool.config(), {"program": "/opt/netcaliper", "port": 7500})


if __name__ == "__main__":
    unittest.main()
