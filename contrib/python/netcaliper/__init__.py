"""netcaliper from Python: runs the program and returns its result as typed objects.

    import netcaliper

    result = netcaliper.run("tcp", "server.example", connections=8, time="5s")
    print(result.answer)                    # the program's own sentence
    print(result.goodput.up / 1e9)          # bits per second
    print(result.caveats)                   # reasons not to trust a figure
    for interval in result.outcome.points[0].intervals:
        print(interval.start_ns, interval.remote.rx_bytes)

All measuring and all statistics are the program's; this package starts it and reads its JSON.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Union

from . import outcome as _outcome
from .outcome import Outcome

__all__ = ["Error", "Figures", "Outcome", "Result", "find_program", "run"]

# Exit codes of the program whose runs have a result (docs/output.md).
_MEASURED = {0, 1, 3, 4, 130}


class Error(Exception):
    """The program did not measure: `str()` is its sentence, `code` its exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Figures(Mapping[str, Any]):
    """Figures by their names in the program: `figures["rtt.p99.9"]`, or `figures.rtt.p99` where the name is one of Python's.

    Rates are in bits per second, times in ns, shares in 0 to 1, as docs/output.md lists them. A figure that the run does not have
    raises KeyError or AttributeError; an unknown figure is never 0.
    """

    def __init__(self, figures: Dict[str, float], prefix: str = "") -> None:
        self._figures = figures
        self._prefix = prefix

    def __getitem__(self, name: str) -> Any:
        full = self._prefix + name
        if full in self._figures:
            return self._figures[full]
        inner = Figures(self._figures, full + ".")
        if not len(inner):
            raise KeyError(full)
        return inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name if name in self else name.replace("_", "-")]
        except KeyError:
            raise AttributeError(f"this run has no figure '{self._prefix}{name}'; it has: {', '.join(self)}") from None

    def __contains__(self, name: object) -> bool:
        full = f"{self._prefix}{name}"
        return any(known == full or known.startswith(full + ".") for known in self._figures)

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix):] for name in self._figures if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Figures({ {name: self[name] for name in self} })"


class Result:
    """A run's result. Figures of the run are attributes: `result.goodput.up`, `result.rtt.p50`, `result.figures["rtt.p99.9"]`.

    A sweep has one row per setting in `rows`; the attributes are those of its first row.
    """

    def __init__(self, summary: Dict[str, Any], outcome: Outcome, code: int) -> None:
        #: The result in one line, as the program prints it.
        self.answer: str = summary["answer"]
        #: `complete`, `interrupted`, `partial` or `failed`.
        self.status: str = summary["status"]
        #: Reason of a status other than `complete`.
        self.reason: Optional[str] = summary["reason"]
        #: Names of the caveats, the gravest first (docs/caveats.md); texts and advice are in `outcome`.
        self.caveats: List[str] = summary["caveats"]
        #: Figures of each setting, with the setting's label where it is one of several.
        self.rows: List[Figures] = [Figures(row["figures"]) for row in summary["results"]]
        #: Exit code of the program: 0, or 1 failed, 3 an `assert` does not hold, 4 partial, 130 interrupted.
        self.code = code
        #: The whole document (schema/outcome.v2.json) as typed objects.
        self.outcome = outcome

    @property
    def figures(self) -> Figures:
        """Figures of the run, or of the first setting of a sweep."""
        return self.rows[0] if self.rows else Figures({})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("rows", "figures"):
            raise AttributeError(name)
        return getattr(self.figures, name)

    def __repr__(self) -> str:
        return f"<netcaliper.Result {self.status}: {self.answer}>"


def find_program() -> str:
    """Path of the program: that of the variable NETCALIPER, else that of this installation, else the first on PATH."""
    name = "netcaliper" + (sysconfig.get_config_var("EXE") or "")
    places = [os.environ.get("NETCALIPER")]
    places += [os.path.join(sysconfig.get_path("scripts", scheme), name) for scheme in _schemes()]
    # `pip install --target FOLDER` puts scripts beside the package.
    places.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", name))
    places.append(shutil.which("netcaliper"))
    for place in places:
        if place and os.path.isfile(place):
            return place
    raise FileNotFoundError("the program netcaliper was not found: install the package with its binary, or set NETCALIPER to its path")


def _schemes() -> List[str]:
    user = "nt_user" if os.name == "nt" else "posix_user"
    return [sysconfig.get_default_scheme() if hasattr(sysconfig, "get_default_scheme") else os.name if os.name == "nt" else "posix_prefix", user]


def _words(options: Mapping[str, Any]) -> List[str]:
    """Options as words of a command line: connections=8 is --connections 8; True is the option alone; a list repeats it."""
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is None or one is False:
                continue
            words += [option] if one is True else [f"{option}={one}"]
    return words


def run(verb: str, *targets: str, timeout: Optional[float] = None, env: Optional[Mapping[str, str]] = None,
        **options: Union[str, int, float, bool, None, List[Any]]) -> Result:
    """Measures and returns the result: `run("delay", "server", rate="10M", time="5s", assert_="loss<=1%")`.

    `verb` and `options` are those of the command line (`netcaliper VERB --help`), with `_` for `-`; a name that Python reserves takes
    a `_` behind it. `timeout` is in seconds: the program is interrupted then, and the result holds the measurement up to there.
    Raises `Error` where the program could not measure, such as for an unknown option.
    """
    with tempfile.TemporaryDirectory(prefix="netcaliper-") as folder:
        journal = os.path.join(folder, "run.jsonl")
        words = [find_program(), verb, *targets, *_words(options), "--json=summary", f"--save={journal}"]
        code, out, err = _call(words, timeout, env)
        if code not in _MEASURED or not out.strip():
            raise Error(_sentence(err), code)
        document = _call([words[0], "report", journal, "--json"], None, env)[1]
    return Result(json.loads(out), _outcome.read(json.loads(document)), code)


def _call(words: List[str], timeout: Optional[float], env: Optional[Mapping[str, str]]):
    # A group of its own, so that an interrupt reaches the program on Windows, too.
    flags = subprocess.CREATE_NEW_PROCESS_GROUP if os.name == "nt" else 0  # type: ignore[attr-defined]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True,
                               encoding="utf-8", creationflags=flags)
    try:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            import signal

            process.send_signal(signal.CTRL_BREAK_EVENT if os.name == "nt" else signal.SIGINT)  # type: ignore[attr-defined]
            # The program asks the other end for its totals before it ends.
            out, err = process.communicate(timeout=30)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


def _sentence(err: str) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    return lines[-1].removeprefix("netcaliper: ") if lines else "the program printed no result"


def _main() -> int:
    """`python -m netcaliper`: the program with the same words."""
    program = find_program()
    if os.name == "nt":
        return subprocess.call([program, *sys.argv[1:]])
    os.execv(program, [program, *sys.argv[1:]])
    return 1
