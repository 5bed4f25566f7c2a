"""Upgrades the variants of a checkout to another release of transformers, on a branch of its own.

python utils/upgrade.py [--from-root OLD] [--to-root NEW] [--branch NAME] [--text FILE] \\
    [--outputs FILE]

The branch gets the declarations as `patchgen rebase --write` leaves them, and the outputs of
`patchgen convert`.  FILE is the text for its pull request: what was rebased, what is left to a
person, and what `patchgen check` says.  The new release is the installed one, or the unpacked one
at NEW; the old one is the one that patchgen.lock names, which pip may download, or the one at OLD.

The checkout stays as it is: all this is done in a worktree beside it, from the last commit.
Nothing is pushed.  Without a change, or where the branch is there already, nothing is done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from patchgen.children import Ended, python, run
from patchgen.cli.terminal import say
from patchgen.syntax.errors import PatchgenError

_SECONDS = 1800  # for each command
_DONE = ("unchanged", "moved", "re-anchored", "merged", "absorbed")
_VERSION = re.compile(r"""^__version__ = ["']([^"'\n]+)""", re.MULTILINE)
_LONGEST = 60_000  # letters; GitHub takes 65536 for a pull request


class _Failed(Exception):
    """A command that has to work did not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if a branch was made or none was needed, 2 if neither is possible."""
    options = _options(arguments)
    version = _version(options.to_root)
    branch = options.branch or f"transformers-{version}"
    try:
        made = _upgrade(branch, version, options)
    except (_Failed, PatchgenError) as error:
        say(error, err=True)
        return 2
    if options.outputs:
        with options.outputs.open("a", encoding="utf-8") as file:
            file.write(f"branch={branch if made else ''}\nversion={version}\n")
            file.write(f"text={options.text or ''}\n")
    say(f"made the branch {branch}" if made else f"{branch}: nothing to do")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from-root", type=Path, help="the old release, unpacked")
    parser.add_argument("--to-root", type=Path, help="the new release, unpacked")
    parser.add_argument("--branch", help="default: transformers-VERSION")
    parser.add_argument("--text", type=Path, help="where the pull request's text goes")
    parser.add_argument("--outputs", type=Path, help="where branch=NAME is written for GitHub")
    return parser.parse_args(arguments)


def _version(root: Path | None) -> str:
    """The release at `root`, else the installed one; it is not imported."""
    if root is not None:
        found = _VERSION.search((root / "transformers/__init__.py").read_text(encoding="utf-8"))
        return found[1] if found else root.name
    from importlib.metadata import version

    return version("transformers")


def _upgrade(branch: str, version: str, options: argparse.Namespace) -> bool:
    """Make the branch; False where nothing differs, or the branch is there already."""
    _git("worktree", "prune")
    if _has_branch(branch):
        return False
    home = Path(_git("rev-parse", "--show-prefix").strip())
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        place = Path(folder, "checkout")
        _git("worktree", "add", "--quiet", "--detach", str(place), "HEAD")
        try:
            text = _rebase_and_convert(place / home, version, options)
            _git("add", "--all", at=place)
            if not _git("status", "--porcelain", at=place):
                return False
            _git(
                *_author(),
                "commit",
                "--quiet",
                "-m",
                f"Upgrade to transformers {version}",
                at=place,
            )
            # Last, so that a run that is killed leaves no branch behind.
            _git("branch", branch, "HEAD", at=place)
        finally:
            _git("worktree", "remove", "--force", str(place))
    if options.text:
        options.text.write_text(text, encoding="utf-8")
    return True


def _has_branch(branch: str) -> bool:
    """Whether the branch is here or at the remote, from an earlier run."""
    if _git("branch", "--list", branch):
        return True
    remote = "origin" in _git("remote").split()
    return remote and bool(_git("ls-remote", "--heads", "origin", branch))


def _author() -> list[str]:
    """An author for machines that have none."""
    known = run(["git", "config", "user.email"], None, _SECONDS)
    if known.returncode == 0:
        return []
    return ["-c", "user.name=patchgen", "-c", "user.email=patchgen@users.noreply.github.com"]


# What is run


def _rebase_and_convert(home: Path, version: str, options: argparse.Namespace) -> str:
    """Rebase, convert and check the project at `home`; the text for the pull request."""
    words = ["--write", "--output-format", "json"]
    words += (
        ["--from-root", str(options.from_root.resolve())] if options.from_root else ["--download"]
    )
    new = str(options.to_root.resolve()) if options.to_root else ""
    words += ["--to-root", new] if new else []
    rebased = _patchgen(home, "rebase", *words)
    try:
        reports: list[dict[str, Any]] = json.loads(rebased.stdout)["modulars"]
    except ValueError as error:
        raise _Failed(f"patchgen rebase failed:\n{rebased.stdout}{rebased.stderr}") from error
    root = ["--package-root", new] if new else []
    converted = _patchgen(home, "convert", "--quiet", *root)
    if converted.returncode not in (0, 1):
        raise _Failed(f"patchgen convert failed:\n{converted.stdout}{converted.stderr}")
    checked = _patchgen(home, "check", "--quiet", "--output-format", "text", *root)
    return "\n".join(_text(version, reports, checked))[:_LONGEST]


def _patchgen(home: Path, *words: str) -> Ended:
    # The form of findings must not depend on where this runs.
    env = {name: value for name, value in os.environ.items() if name != "GITHUB_ACTIONS"}
    return run(python("patchgen", *words), home, _SECONDS, env)


def _git(*words: str, at: Path | None = None) -> str:
    done = run(["git", *words], at, _SECONDS)
    if done.returncode:
        raise _Failed(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


# What is written


def _text(version: str, reports: Sequence[dict[str, Any]], checked: Ended) -> Iterator[str]:
    """The lines of the pull request's text."""
    made_by = "`patchgen rebase --write` and `patchgen convert`"
    yield f"The variants with transformers {version}, by {made_by}."
    left = [report for report in reports if not report["done"]]
    rewritten = [report for report in reports if report["written"]]
    yield f"\n{len(reports) - len(left)} of {len(reports)} modular files need nobody."
    yield f"{len(rewritten)} of all were rewritten." if rewritten else "None was rewritten."
    if left:
        yield "\n## Left to you"
    for report in left:
        yield from _left(report)
    changed = [line for report in reports for line in _done(report)]
    if changed:
        yield from ("\n## Done", "", *changed)
    words = "fails" if checked.returncode else "passes"
    yield f"\n## `patchgen check` {words}"
    output = (checked.stdout + checked.stderr).strip()
    if output:
        yield from ("", "```text", output, "```")
    yield "\n`patchgen verify --all` compares the models; it needs torch, and was not run."


def _left(report: dict[str, Any]) -> Iterator[str]:
    yield f"\n### {report['modular']}"
    for problem in report["problems"]:
        yield f"\n- [ ] line {problem['line']}: {problem['code']} {problem['message']}"
    for change in report["changes"]:
        if change["state"] in _DONE:
            continue
        yield f"\n- [ ] {_name(change)}: {change['state']}"
        yield from (f"  - {doubt['what']}" for doubt in change["doubts"])
        if change["upstream"]:
            yield from ("", "```diff", change["upstream"], "```")


def _done(report: dict[str, Any]) -> Iterator[str]:
    for change in report["changes"]:
        if change["state"] in _DONE[1:]:
            yield f"- {report['modular']}: {_name(change)}: {change['state']}"


def _name(change: dict[str, Any]) -> str:
    return f"`{change['class']}.{change['member']}`" if change["class"] else f"`{change['member']}`"


if __name__ == "__main__":
    sys.exit(main())
