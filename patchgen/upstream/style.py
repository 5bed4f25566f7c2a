"""Style many texts as transformers' repository does: one call of its linter, one of its formatter.

In: texts by their paths inside the package, by which isort decides what is first party.  Out: the
texts, and what the linter reports and cannot fix.  Formatting is part of the contract: without the
linter's fixes only 15 of the 667 outputs are right, and a newer ruff changes six.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen import children, disk
from patchgen.formatting.format import SECONDS, ruff_program
from patchgen.formatting.layout import keep_layout
from patchgen.syntax.errors import Location, PatchgenError

# Where the package lies in its repository, whose configuration this is.
_PACKAGE = Path("src", "transformers")
_CONFIGURATION = """
line-length = 119
exclude = []
respect-gitignore = false
target-version = "py311"

[lint]
select = [
    "E", "F", "I", "W", "UP", "FURB", "SIM", "S110", "C4", "C901", "RUF013", "PERF102", "PLC1802",
    "PLC0208", "PIE794", "PLW1514",
]
ignore = ["C901", "E501", "E741", "FURB110", "SIM1", "SIM905", "UP015", "UP031"]
extend-safe-fixes = ["UP006"]
preview = true
explicit-preview-rules = true  # PLW1514 alone

[lint.isort]
lines-after-imports = 2
known-first-party = ["transformers"]

[format]
quote-style = "double"
indent-style = "space"
skip-magic-trailing-comma = false
line-ending = "lf"
"""
# What makes a text worthless, of all that the linter finds; the rest is the business of those who
# wrote it.
_UNDEFINED = "F821"
_SYNTAX = "invalid-syntax"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """An undefined name (PG402), or what is no Python (PG404), at `line` of the text at `path`."""

    path: str
    line: int
    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Styled:
    """Formatted texts by path; one that is no Python is missing, and among the faults."""

    texts: Mapping[str, str]
    faults: tuple[Fault, ...]


def style(texts: Mapping[str, str], jobs: int = 0) -> Styled:
    """Style `texts`, by paths such as `models/llama/modeling_llama.py`.

    `jobs` is the number of threads; by default there is one for each processor.  Raises
    PatchgenError PG911 when ruff is not installed, PG912 when it fails.
    """
    if not texts:
        return Styled({}, ())
    with disk.scratch() as top:
        package = top / _PACKAGE
        disk.fill(top, {"ruff.toml": _CONFIGURATION})
        disk.fill(package, texts)
        arguments = ["check", "--fix", "--exit-zero", "--output-format", "json"]
        report = _ruff(arguments, top, jobs)
        faults = tuple(sorted(_faults(json.loads(report or "[]"), package)))
        # The formatter would stop at a file that does not parse.
        broken = {fault.path for fault in faults if fault.code == "PG404"}
        for path in broken:
            disk.remove(package / path, top)
        sound = [path for path in texts if path not in broken]
        linted = {path: disk.read_bytes(package / path).decode() for path in sound}
        if sound:
            _ruff(["format", "--quiet"], top, jobs)
        formatted = {path: disk.read_bytes(package / path).decode() for path in sound}
    styled = {path: keep_layout(linted[path], formatted[path], 119) for path in sound}
    return Styled(styled, faults)


def _faults(report: Sequence[Mapping[str, object]], package: Path) -> list[Fault]:
    """What of the report of ruff makes a text useless."""
    faults = []
    for item in report:
        code = item["code"]
        row = item["location"]
        # Some releases of ruff give a syntax error no code.
        if code not in (_UNDEFINED, _SYNTAX, None):
            continue
        assert isinstance(row, dict)
        path = Path(str(item["filename"])).resolve().relative_to(package.resolve()).as_posix()
        message = str(item["message"]).rstrip(".").replace("`", "")
        line = int(row["row"])
        if code == _UNDEFINED:
            name = message.removeprefix("Undefined name ")
            faults.append(Fault(path, line, "PG402", f"the name {name} is bound by nothing"))
        else:
            what = f"the generated module does not compile: {message}"
            faults.append(Fault(path, line, "PG404", what))
    return faults


def _ruff(arguments: Sequence[str], folder: Path, jobs: int) -> str:
    """What ruff prints.  Raises PatchgenError PG912 where it fails."""
    # No other variable: RUFF_* would change what it does.
    environment = {"RAYON_NUM_THREADS": str(jobs)} if jobs else {}
    command = [ruff_program(), *arguments, "--config", "ruff.toml", "--no-cache", "."]
    done = children.run(command, folder, SECONDS, environment)
    if done.returncode:
        message = (done.stderr or done.stdout).strip().partition("\n")[0]
        raise PatchgenError(
            "PG912", Location("ruff"), f"refused generated texts: {message}", "please report this"
        )
    return done.stdout
