"""Attacks a server and a client of netcaliper, each with a verdict.

    python3 bench/attacks                 all attacks
    python3 bench/attacks rogue web       those whose names begin with one of these words
    python3 bench/attacks --list

Takes target/release/netcaliper, or the program named by NETCALIPER. As root it moves into a network namespace of its own, so that
the usual ports are free and nothing leaves the machine; otherwise attacks that need that are skipped. The last line says
`N passed, N failed, N skipped`.
"""

import argparse
import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rig  # noqa: E402
import admission, damage, endings, keys, limits, outside, rights, rogue, sharing, web  # noqa: E402,E401


def own_namespace():
    """Starts this program again in a network namespace of its own."""
    if os.geteuid() == 0 and "NETCALIPER_ATTACKS_ALONE" not in os.environ:
        inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', sys.executable, *sys.argv]
        if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0:
            os.execvpe("unshare", inside, dict(os.environ, NETCALIPER_ATTACKS_ALONE="1"))


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("name", nargs="*")
    words.add_argument("--list", action="store_true")
    args = words.parse_args()
    modules = [sharing, admission, limits, damage, outside, keys, rights, rogue, endings, web]
    attacks = [(f"{module.__name__}.{name}", function) for module in modules for name, function in vars(module).items()
               if getattr(function, "is_attack", False)]
    attacks = [(name, function) for name, function in attacks
               if not args.name or any(name.startswith(word) for word in args.name)]
    if args.list:
        for name, function in attacks:
            print(f"{name}: {function.__doc__}")
        return 0
    own_namespace()
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    for name, function in attacks:
        began = time.monotonic()
        try:
            verdict, text = "ok", function() or ""
        except rig.Skip as why:
            verdict, text = "skipped", str(why)
        except rig.Failed as why:
            verdict, text = "FAILED", str(why)
        except Exception:
            verdict, text = "FAILED", traceback.format_exc()
        finally:
            rig.end_all()
        counts[verdict] += 1
        print(f"{verdict:7} {name} ({time.monotonic() - began:.0f} s) {text}", flush=True)
    print(f"\n{counts['ok']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return counts["FAILED"] != 0


if __name__ == "__main__":
    sys.exit(main())
