"""Says on which releases of transformers other people's forks and patches work.

    python benchmarks/observatory.py RELEASES [--out docs/observatory.md]

RELEASES is a folder of releases, unpacked or as wheels.  Each file that `public_forks.txt` names is
adopted: its declaration says what it changes, and nothing else of it.  `patchgen rebase
--releases` then converts the declarations on each release, so that a target that is gone, a
signature that does not fit, or code that an edit does not find is named.  Patches are also
read on each release as they are: an assignment there may reach nothing.  Nothing of the
packages is imported or run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from adopt import packaged

PATCHGEN = [sys.executable, "-m", "patchgen"]
HEAD = """# Other people's forks and patches, release by release

Files of packages that anybody can download from PyPI, on {count} releases of transformers, from
{first} to {last}:

```text
python benchmarks/observatory.py RELEASES
```

Each file was adopted by `patchgen adopt` and converted on each release by
`patchgen rebase --releases`. The
releases are those at hand, not all that there are; a range says nothing of others in it. Nothing
was imported or run: whether a file that converts computes the same there is for `patchgen verify`.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("releases", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/observatory.md"))
    options = parser.parse_args()
    releases = options.releases.resolve()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as name:
        folder = Path(name)
        run(folder, "init", ".")
        registries = set[str]()
        names, refused, patches = dict[str, str](), [], []
        for path in packaged(folder / "packages"):
            home = path.relative_to(folder / "packages").as_posix()
            variant = re.sub(r"\W", "_", home.removesuffix(".py"))
            copy = folder / "forks" / f"modeling_{variant}.py"
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
            done = run(folder, "adopt", copy, "--package-root", releases, "--out", "modular")
            names[variant] = home
            registries |= {*re.findall(r'(\w+ = "")', done.stdout + done.stderr)}
            if done.returncode:
                refused.append((home, reason(done)))
            elif "monkey_patch" in home:
                patches.append((home, copy))
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(f"\n[tool.patchgen.decorators]\n{chr(10).join(sorted(registries))}\n")
        found = run(folder, "rebase", "--releases-dir", releases, "--output-format", "json")
        if not found.stdout:
            raise SystemExit(found.stderr)
        data: dict[str, Any] = json.loads(found.stdout)
        seen = data["releases"]
        lines = [HEAD.format(count=len(seen), first=seen[0], last=seen[-1])]
        lines += ["| file | converts on | does not convert on |", "|---|---|---|"]
        lines += [row(names[one["variant"]], one["states"]) for one in data["variants"]]
        lines += ["", "## Patches", "", "What the assignments reach on each release:", ""]
        lines += ["| file | all of them take effect on | elsewhere |", "|---|---|---|"]
        for home, copy in patches:
            states = {}
            for release in seen:
                done = run(folder, "adopt", copy, "--package-root", releases, "--release", release)
                states[release] = reason(done) if done.returncode else "converts"
            lines.append(row(home, states))
        lines += ["", "## Not adopted", "", "| file | why |", "|---|---|"]
        lines += [f"| `{home}` | {why.replace('|', '/')} |" for home, why in refused]
    options.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


def run(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of patchgen in the project at `folder`."""
    command = [*PATCHGEN, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def row(home: str, states: dict[str, str]) -> str:
    """A file with the ranges of releases that agree: good ones, and the others with a word each."""
    ranges: list[tuple[str, str, str]] = []
    for release, state in states.items():
        word = "" if state.startswith("converts") else state
        is_same = bool(ranges) and ranges[-1][2] == word
        ranges.append((ranges.pop()[0] if is_same else release, release, word))
    spelled = [(a if a == b else f"{a} to {b}", word) for a, b, word in ranges]
    good = ", ".join(span for span, word in spelled if not word)
    bad = "; ".join(f"{span}: {word}" for span, word in spelled if word)
    return f"| `{home}` | {good} | {bad} |"


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why a file is not adopted, without its place."""
    pattern = r"PG\d+ .*|(?:missing|not run by the output): .*|internal error.*"
    said = re.search(pattern, done.stdout + done.stderr)
    return said[0] if said else "the output differs"


if __name__ == "__main__":
    main()
