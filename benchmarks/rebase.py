"""Counts what `patchgen rebase` carries from one release of transformers to another.

python benchmarks/rebase.py upgrades RELEASES [--count 500] [--seed 1] [--kind KIND]
python benchmarks/rebase.py forks FORKS OLD NEW

RELEASES is a folder of unpacked releases.  Changes of the kinds that people make are made at random
in methods that differ between two of them, where the place of the change is there in both; the
right answer is the same change made in the newer text (tests/population/upgrades.py).  The table
has for each kind how many upgrades are `equal` to the answer, `asked` (left to a person), `wrong`
and `broken`; each that is not equal is printed.  The exit code is 1 if one is wrong or broken, or
fewer than nine of ten are equal.

FORKS is a folder of changed copies of modeling files, made from the unpacked release OLD; NEW is
the next release.  Each fork is adopted as a declaration, which is then rebased.  The table has the
methods and functions that the forks changed and NEW changed too, each once, and what becomes of
them: by `patchgen rebase`, by `git merge-file`, and by `git merge-file` with one argument a line.
A method that two forks change alike is counted once.  The last row leaves out methods that NEW
does not have, and counts one that several models have with the same text once.  The table goes to
stdout as Markdown.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests have the population

from patchgen.author.adopt.parents import find_parents
from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import Release, order_of, releases_in
from patchgen.author.adopt.work import adopt
from patchgen.author.align.file import File, read_file
from patchgen.author.rebase.code import member_of
from patchgen.author.rebase.releases import Prover, Tree
from patchgen.author.rebase.work import OPEN, Rebase, Rebased, State
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.project.markdown import table_lines
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import make_environment
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import make_source
from tests.population.upgrades import KINDS, Judge, upgrades

SETTINGS = Settings()
# What needs no person.  A fork that is not rebased, or a method that is not named, is not among
# them.
DONE = {str(state) for state in State} - {str(state) for state in OPEN}
_PARENT = re.compile(r"transformers\.models\.(\w+)\.modeling_(\w+)")


@dataclass(frozen=True)
class Method:
    """A method in three versions, as text."""

    fork: str
    name: str
    base: ast.stmt
    ours: ast.stmt
    theirs: ast.stmt | None

    @property
    def texts(self) -> tuple[str, ...]:
        """What the three versions say: the same for methods that models share."""
        return tuple(plain_text(one) for one in (self.base, self.ours, self.theirs) if one)


def main() -> int:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tables = parser.add_subparsers(dest="table", required=True)
    upgrades = tables.add_parser("upgrades")
    upgrades.add_argument("releases", type=Path)
    upgrades.add_argument("--count", type=int, default=500)
    upgrades.add_argument("--seed", type=int, default=1)
    upgrades.add_argument("--kind", default="", help="only the kinds that have this text")
    forks = tables.add_parser("forks")
    for name in ("forks", "old", "new"):
        forks.add_argument(name, type=Path)
    forks.add_argument("--show", action="store_true", help="also print merged methods")
    options = parser.parse_args()
    return count_upgrades(options) if options.table == "upgrades" else count_forks(options, forks)


def count_upgrades(options: argparse.Namespace) -> int:
    """Print what becomes of upgrades with a known answer, by kind."""
    folders = [path for path in options.releases.iterdir() if (path / "transformers").is_dir()]
    roots = sorted(folders, key=lambda path: order_of(path.name))
    kinds = [kind for kind in KINDS if options.kind in kind]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in [*kinds, "all"]}
    judge = Judge(roots)
    for upgrade in upgrades(roots, options.seed, options.count, kinds):
        state, why = judge.state_of(upgrade)
        for name in (upgrade.kind, "all"):
            counts[name][state] += 1
        if state != "equal":
            print(state, upgrade.name, upgrade.kind, why, file=sys.stderr, flush=True)
    states = ("equal", "asked", "wrong", "broken", "unmade")
    rows = [(kind, *(str(count[state]) for state in states)) for kind, count in counts.items()]
    print("\n".join(table_lines(("kind", *states), rows, numbers=states)))
    total = counts["all"]
    made = sum(total.values()) - total["unmade"]
    return int(bool(total["wrong"] or total["broken"]) or total["equal"] < 0.9 * made)


def count_forks(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print a row for each method, and the sums."""
    old, new = (release_in(folder, parser) for folder in (options.old, options.new))
    print("| fork | method | rebase | git | one argument a line |")
    print("|---|---|---|---|---|")
    sums: Counter[str] = Counter()
    once: dict[tuple[str, ...], dict[str, bool]] = {}
    seen: set[tuple[str, str]] = set()
    for path in sorted(options.forks.glob("*.py")):
        for method, state, merged in methods_of(path, old, new):
            key = (method.name, plain_text(method.ours))
            if key in seen:
                continue
            seen.add(key)
            merges = [merges_cleanly(method, width) for width in (119, 1)]
            words = ["clean" if clean else "conflict" for clean in merges]
            print(f"| {path.stem} | {method.name} | {state} | {' | '.join(words)} |", flush=True)
            done = {"all": True, "rebase": state in DONE, "git": merges[0], "wide": merges[1]}
            sums.update(done)
            if method.theirs is not None:
                known = once.setdefault(method.texts, done)
                once[method.texts] = {name: known[name] and done[name] for name in done}
            if options.show and merged:
                print(merged, file=sys.stderr)
    alike: Counter[str] = Counter()
    for done in once.values():
        alike.update(done)
    for name, count in (("each", sums), ("each text", alike)):
        figures = [count[key] for key in ("all", "rebase", "git", "wide")]
        print(f"| {name} | {' | '.join(map(str, figures))} |")
    return 0


def release_in(folder: Path, parser: argparse.ArgumentParser) -> Release:
    """The release in a folder; without one, the command ends with a message."""
    found = releases_in(folder, folder)
    if len(found) != 1:
        parser.error(f"{folder} holds {len(found) or 'no'} releases of transformers, not one")
    return found[0]


def methods_of(path: Path, old: Release, new: Release) -> Iterator[tuple[Method, str, str]]:
    """The methods that a fork and the new release both changed, and what `rebase` makes of them."""
    fork = read_fork(path, path.name, SETTINGS, generated=True)
    found = _PARENT.search(fork.source.text)
    (parent, *_) = find_parents(fork, [old], found[2] if found else None, lambda count: None)
    trees = [Tree(make_environment(path.parent, one.root(), ())) for one in (old, new)]
    module = parent.forked.module
    changed = list(changed_methods(path.stem, fork, trees, module))
    if not changed:
        return
    name = f"modular_{path.stem.removeprefix('modeling_')}.py"
    made = adopt(parent.forked, name, old.root(), SETTINGS)
    modular = read_file(make_source(made.text, name))
    trees_of = trees[0], trees[1]
    try:
        prover = Prover(name, (), SETTINGS)
        rebased = Rebase(modular, prover, old.root(), new.root(), trees_of).run()
    except PatchgenError as error:
        for method in changed:
            yield method, f"not rebased: {error.problem.what}", ""
        return
    for method in changed:
        yield method, *state_of(method, rebased)


def changed_methods(stem: str, fork: File, trees: list[Tree], module: str) -> Iterator[Method]:
    """The functions and methods that both the fork and the new parent changed."""
    base, theirs = (tree.file(module) for tree in trees)
    if base is None or theirs is None:
        return
    for name, definition in fork.definitions.items():
        owners = (
            [(name, member) for member in definition.members] if definition.kind == "class" else []
        )
        if definition.kind == "def":
            owners = [("", name)]
        for owner, member in owners:
            versions = [member_of(file, owner, member) for file in (base, fork, theirs)]
            before, own, after = versions
            if before is None or own is None or own.function is None or before.function is None:
                continue
            if plain_text(before.function) == plain_text(own.function):
                continue
            new = after.function if after is not None else None
            if new is None or plain_text(new) != plain_text(before.function):
                title = f"{owner}.{member}" if owner else member
                yield Method(stem, title, before.function, own.function, new)


def state_of(method: Method, rebased: Rebased) -> tuple[str, str]:
    """What `rebase` says of a method; it must name each, so that none is passed over."""
    for result in rebased.results:
        if result.change.name == method.name:
            return str(result.state), result.merged
    return "not named", ""


# git


def merges_cleanly(method: Method, width: int) -> bool:
    """Whether `git merge-file` merges a method without a conflict."""
    if method.theirs is None:
        return False
    nodes = {"base.py": method.base, "ours.py": method.ours, "theirs.py": method.theirs}
    texts = {name: ast.unparse(without_docstring(node)) + "\n" for name, node in nodes.items()}
    formatted = format_texts(dict(texts), Settings(line_length=width))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in formatted.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        command = ["git", "merge-file", "-p", "ours.py", "base.py", "theirs.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


def without_docstring(node: ast.stmt) -> ast.stmt:
    """A function without its docstring."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if ast.get_docstring(node) is None:
        return node
    fields = dict(ast.iter_fields(node)) | {"body": node.body[1:] or [ast.Pass()]}
    return ast.fix_missing_locations(ast.copy_location(type(node)(**fields), node))


if __name__ == "__main__":
    sys.exit(main())
