"""The package against the installed program, over loopback."""

import contextlib
import os
import re
import subprocess
import unittest

import netcaliper


@contextlib.contextmanager
def server():
    """Address of a server at a port that the system chose."""
    words = [netcaliper.find_program(), "serve", "--bind", "127.0.0.1", "-p", "0", "--store", "off"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in process.stdout:
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if found:
                yield f"127.0.0.1:{found[1]}"
                return
        raise AssertionError("the server named no address")
    finally:
        process.terminate()
        process.communicate()


class Runs(unittest.TestCase):
    def test_a_run_has_figures_and_a_typed_outcome(self):
        with server() as address:
            result = netcaliper.run("tcp", address, connections=2, time="1s")
        self.assertEqual((result.status, result.code, result.reason), ("complete", 0, None))
        self.assertGreater(result.goodput.up, 0)
        self.assertEqual(result.goodput.up, result.figures["goodput.up"])
        self.assertFalse(hasattr(result, "jitter"))
        self.assertIn("loopback", result.caveats)
        point = result.outcome.points[0]
        self.assertEqual(result.outcome.begin.verb, "tcp")
        self.assertEqual(point.phase.connections, 2)
        self.assertAlmostEqual(point.up.goodput_bps / result.goodput.up, 1, places=3)
        self.assertGreaterEqual(len(point.connections), 2)
        self.assertIn("loopback", [caveat.code for caveat in point.caveats])

    def test_percentiles_whose_names_python_cannot_spell_are_items(self):
        # A figure has ten values beyond its percentile.
        with server() as address:
            result = netcaliper.run("ping", address, count=12_000, flood=True)
        self.assertGreaterEqual(result.figures["rtt.p99.9"], result.rtt.p50)
        self.assertEqual(result.messages_lost, 0)
        with self.assertRaises(KeyError):
            result.figures["goodput.up"]

    def test_each_setting_of_a_sweep_is_a_row(self):
        with server() as address:
            result = netcaliper.run("tcp", address, sweep="connections=1,2", time="300ms")
        self.assertEqual(len(result.rows), 2)
        self.assertEqual([row.label["connections"] for row in result.outcome.sweep], ["1", "2"])

    def test_an_assertion_that_does_not_hold_is_an_exit_code(self):
        with server() as address:
            result = netcaliper.run("tcp", address, time="300ms", assert_=["goodput>900T"])
        self.assertEqual(result.code, 3)
        self.assertEqual(result.status, "complete")

    def test_a_run_that_takes_too_long_is_interrupted_and_kept(self):
        with server() as address:
            result = netcaliper.run("tcp", address, time="1h", timeout=1.5)
        self.assertEqual(result.status, "interrupted")
        self.assertGreater(result.goodput.up, 0)

    def test_errors_are_the_programs_sentences(self):
        with self.assertRaisesRegex(netcaliper.Error, "--nonsense") as raised:
            netcaliper.run("tcp", "127.0.0.1", nonsense=True)
        self.assertEqual(raised.exception.code, 2)
        with server() as address:
            failed = netcaliper.run("tcp", address.replace("127.0.0.1", "127.0.0.2"), time="300ms")
        self.assertEqual((failed.status, failed.code), ("failed", 1))
        self.assertIn("refused", failed.reason)

    def test_the_program_can_be_named(self):
        before = os.environ.get("NETCALIPER")
        os.environ["NETCALIPER"] = program = netcaliper.find_program()
        try:
            self.assertEqual(netcaliper.find_program(), program)
        finally:
            del os.environ["NETCALIPER"]
            if before:
                os.environ["NETCALIPER"] = before


if __name__ == "__main__":
    unittest.main()
