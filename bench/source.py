"""The project's Rust sources as bench/house and bench/prose read them: comments, strings, code, and which lines are tests.

Tests are `tests/` and `conformance` folders, `#[cfg(test)]` modules and the files that these name, and crates that only tests depend on.
"""

import re

TOKENS = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>b?r(?P<hash>\#*)\".*?\"(?P=hash)|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\.[^']*|[^'\\])')",
    re.S,
)
TEST_MODULE = re.compile(
    r"^( *)#\[cfg\((?:test|all\(test[^\]]*)\)\]\n(?:\s*#\[[^\n]*\n)*\s*(?:pub(?:\([a-z ]+\))? )?mod (\w+)(;| \{)", re.M
)
ONLY_FOR_TESTS = {"sim"}


def blank(match):
    """Comments and strings without their text, with their line ends."""
    inner = match["comment"] or match["string"]
    return "\n" * inner.count("\n") if match["comment"] else '""' + "\n" * inner.count("\n")


def test_modules(code):
    """Start and end of each test module in code without comments, and the names of test modules in files of their own."""
    spans, files, at = [], [], 0
    for match in TEST_MODULE.finditer(code):
        if match.start() < at:
            continue
        end = match.end()
        if match[3] == ";":
            files.append(match[2])
        else:
            close = re.compile(rf"^{match[1]}\}}", re.M).search(code, end)
            end = close.end() if close else len(code)
        spans.append((match.start(), end))
        at = end
    return spans, files


class Source:
    """One file: its text, its code without comments and with empty strings, and the parts of the code that are tests."""

    def __init__(self, root, path):
        self.path, self.text = path, path.read_text()
        self.code = TOKENS.sub(blank, self.text)
        self.spans, self.files = test_modules(self.code)
        parts = path.relative_to(root / "crates").parts
        self.crate = "/".join(parts[: 2 if parts[0] == "protocols" else 1])
        self.is_test = bool({"tests", "conformance"} & set(path.parts)) or self.crate in ONLY_FOR_TESTS

    def kept(self):
        """The code without its test modules."""
        at, kept = 0, []
        for start, end in self.spans:
            kept.append(self.code[at:start])
            at = end
        return "".join(kept) + self.code[at:]

    def tests(self):
        return "".join(self.code[start:end] for start, end in self.spans)

    def test_lines(self):
        """Numbers, from 0, of the lines of test modules: the same in the code and in the text."""
        numbers = set()
        for start, end in self.spans:
            first = self.code.count("\n", 0, start)
            numbers.update(range(first, first + self.code.count("\n", start, end) + 1))
        return numbers


def sources(root):
    """All files of the crates below a folder, the tests among them marked."""
    paths = sorted((root / "crates").rglob("*.rs"))
    found = [Source(root, path) for path in paths if "target" not in path.parts and "fuzz" not in path.parts]
    test_files = set()
    for source in found:
        path = source.path
        folder = path.parent if path.stem in ("lib", "main", "mod") else path.parent / path.stem
        for name in source.files:
            test_files |= {folder / f"{name}.rs", path.parent / f"{name}.rs", folder / name / "mod.rs"}
    for source in found:
        source.is_test = source.is_test or source.path in test_files
    return found
