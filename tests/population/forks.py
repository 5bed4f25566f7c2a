"""Forks at random: copies of modeling files with one to five changes of the kinds people make.

fork = make_fork(Model(path), seed)      the text, the kinds of its changes, and what it started from
judge(fork, release)                     adopts it, and compares the result by means of its own
"""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import symtable
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from patchgen.author.adopt.parents import candidate, find_file
from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.work import Adopted, adopt
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError
from tests.population import changes
from tests.population.changes import Function, Text
from tests.population.models import HEADS, Model
from tests.population.more_changes import MORE

# What an edit may cost beside the lines that the diff adds.
A_HUNK, A_FILE = 6, 6

KINDS: dict[str, Callable[[Text], Text]] = {
    kind.__name__: kind
    for kind in (
        changes.put_statement_in, changes.put_statement_first, changes.remove_statement,
        changes.change_expression, changes.change_number, changes.wrap_in_condition,
        changes.rename_local, changes.thread_argument, changes.add_parameter_alone,
        changes.remove_parameter, changes.change_default, changes.change_annotation_and_docstring,
        changes.rewrite_method, changes.add_constant, changes.add_helper, changes.add_class,
        changes.change_base, changes.delete_class, changes.change_decorator, changes.move_member,
        changes.add_member, changes.delete_member, changes.change_attribute, changes.rename_class,
        changes.rename_prefix, changes.import_own, changes.import_guarded, changes.import_more,
        changes.stand_at_top, *MORE,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Fork:
    """A changed copy of a model; `base` is the copy before the changes."""

    model: Model
    seed: int
    kinds: tuple[str, ...]
    base: str
    text: str

    @property
    def asked(self) -> tuple[int, int]:
        """The lines that the diff adds, and its hunks."""
        old, new = ([line.rstrip() for line in t.split("\n")] for t in (self.base, self.text))
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        changed = [(j, m) for tag, _, _, j, m in blocks if tag != "equal"]
        return sum(1 for j, m in changed for line in new[j:m] if line.strip()), len(changed)

    @property
    def most(self) -> int:
        """The lines that its declaration may have."""
        added, hunks = self.asked
        return added + A_HUNK * hunks + A_FILE


def make_fork(model: Model, seed: int) -> Fork:
    """One to five random changes of a model's file."""
    random = Random(f"{seed} {model.name}")
    base = as_copied(model, random.choice(["absolute", "inside", "hub"]))
    text, kinds = Text(base, random), []
    wanted = random.randint(1, 5)
    names = [*KINDS]
    # Some changes do nothing: documentation, the order of members, what is left out.
    while len(kinds) < wanted or not differences(text.tree, ast.parse(base)):
        kind = random.choice(names)
        try:
            made = KINDS[kind](text)
            if unbound(made.text) - unbound(text.text):
                continue
        except (LookupError, SyntaxError, ValueError):
            continue
        if made.text != text.text:
            text = made
            kinds.append(kind)
    return Fork(model, seed, tuple(kinds), base, text.text)


def unbound(text: str) -> set[str]:
    """The names that a file reads and nowhere binds; raises SyntaxError where it is not Python."""
    compile(text, "fork.py", "exec")
    unbound: set[str] = set()
    tables = [symtable.symtable(text, "fork.py", "exec")]
    top = {s.get_name() for s in tables[0].get_symbols() if s.is_assigned() or s.is_imported()}
    for table in tables:
        tables += table.get_children()
        unbound |= {
            s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()
        }
    top |= {s.get_name() for s in tables[0].get_symbols() if s.is_namespace()}
    return unbound - top - {*dir(builtins)}


def as_copied(model: Model, way: str) -> str:
    """The model's file with imports as a copy of it has them."""
    package = model.module.rpartition(".")[0]
    dots = [
        ("....", "."),
        ("...", "transformers."),
        ("..", "transformers.models."),
        (".", f"{package}."),
    ]
    text = model.text
    if way == "inside":
        return text
    for level, full in dots[1:]:
        if way == "hub" and level == ".":
            continue
        text = re.sub(
            rf"^(\s*from ){re.escape(level)}(?!\.)( ?)", rf"\g<1>{full}\2", text, flags=re.M
        )
    return re.sub(r"^(\s*from transformers(?:\.models)?)\.( import)", r"\1\2", text, flags=re.M)


def forks(release: Release, count: int, seed: int) -> Iterator[Fork]:
    """Forks of models that people use, of a release."""
    folder = release.root() / "transformers" / "models"
    paths = sorted(folder.glob("*/modeling_*.py"))
    paths = [
        p for p in paths if p.stem == f"modeling_{p.parent.name}" and p.parent.name[:4] != "auto"
    ]
    # Not parsed: that takes longer than all else.
    head = re.compile(rf"^class \w*({'|'.join(HEADS)})\b", re.MULTILINE)
    models = [Model(path) for path in paths if head.search(path.read_text(encoding="utf-8"))]
    random = Random(f"{seed} {release.version}")
    for number, model in enumerate(random.sample(models, min(count, len(models)))):
        yield make_fork(model, 1000 * seed + number)


@dataclass(frozen=True)
class Result:
    """What became of a fork: "equal", "not", "refused", or "wrong": called equal, and is not."""

    fork: Fork
    state: str
    why: str
    lines: int
    seconds: float
    declaration: str = ""

    @property
    def is_short(self) -> bool:
        return self.lines <= self.fork.most


def judge(fork: Fork, release: Release) -> Result:
    """Adopt a fork, and compare what comes out with it."""
    began = time.process_time()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"modeling_{fork.model.name}_mine.py"
        path.write_text(fork.text, encoding="utf-8")
        try:
            read = read_fork(path, path.name, Settings())
            found = candidate(read, release, *find_file(release, fork.model.module))
            name = path.name.replace("modeling_", "modular_")
            made = adopt(found.forked, name, release.root(), Settings())
        except PatchgenError as error:
            return Result(fork, "refused", str(error), 0, time.process_time() - began)
    spent = time.process_time() - began
    if not made.proof.holds:
        return Result(fork, "not", why_not(made), made.lines, spent, made.text)
    wrong = differences(read.tree, ast.parse(made.proof.output))
    return Result(
        fork, "wrong" if wrong else "equal", "; ".join(wrong), made.lines, spent, made.text
    )


def describe(result: Result) -> str:
    """A line about a fork that is not right, or long."""
    fork = result.fork
    said = f"{result.state} {fork.model.name} seed {fork.seed}: {result.lines} of {fork.most} lines"
    return f"{said}, {', '.join(fork.kinds)}: {result.why}"


def why_not(made: Adopted) -> str:
    proof = made.proof
    first = next((str(p).split("\n")[0] for p in proof.problems), "")
    return (
        first
        or f"differ {proof.differ} missing {proof.missing} lost {[*map(ast.unparse, proof.lost)]}"
    )


# What documents and does nothing.
DOCUMENTING = re.compile(
    r"\w*(add_start_docstrings|add_code_sample|replace_return_docstrings|add_end_docstrings|auto_docstring)"
)


class _Bare(ast.NodeTransformer):
    """Without docstrings, annotations of parameters, and decorators that document."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            node.decorator_list = [
                d
                for d in node.decorator_list
                if not DOCUMENTING.match(ast.unparse(getattr(d, "func", d)).rpartition(".")[2])
            ]
            node.body = [
                s
                for s in node.body
                if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
                and not (isinstance(s, ast.AnnAssign) and s.value is None)
                and not isinstance(s, ast.Pass)
            ] or [ast.Pass()]
            if not isinstance(node, ast.ClassDef):
                node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return super().generic_visit(node)


def differences(fork: ast.Module, output: ast.Module) -> list[str]:
    """What of a fork is not in an output, by the trees alone."""
    wrong = []
    # The converter names the output's own models where AutoModel would build transformers'.
    texts = [
        re.sub(r"\b\w+\._?from_config\(", "AutoModel.from_config(", ast.unparse(t))
        for t in (fork, output)
    ]
    texts = [
        re.sub(r"\bsuper\((?!GenericFor)\w+, (?:self|cls)\)", "super()", text) for text in texts
    ]
    bare = [_Bare().visit(ast.parse(text)) for text in texts]
    mine, theirs = ({getattr(s, "name", ""): s for s in tree.body} for tree in bare)
    for name, node in mine.items():
        if not name:
            continue
        if name not in theirs:
            wrong.append(f"{name} is missing")
        elif isinstance(node, ast.ClassDef):
            wrong += [f"{name}: {what}" for what in _of_class(node, theirs[name])]
        elif ast.dump(node) != ast.dump(theirs[name]):
            wrong.append(f"{name} differs")
    there = {ast.unparse(s) for s in bare[1].body}
    for node in bare[0].body:
        said = ast.unparse(node)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        plain = not isinstance(node, ast.ClassDef | Function | ast.Import | ast.ImportFrom)
        if plain and not is_text and said not in there and not _is_upkeep(node):
            wrong.append(f"`{said[:60]}` is missing")
    return wrong


def _of_class(mine: ast.ClassDef, theirs: ast.ClassDef) -> Iterator[str]:
    written = {"is_custom_code"}
    texts = []
    for node in (mine, theirs):
        members = [s for s in node.body if getattr(s, "name", "") not in written]
        heads = [*map(ast.unparse, node.bases), *map(ast.unparse, node.decorator_list)]
        texts.append((heads, sorted(ast.dump(s) for s in members if not isinstance(s, ast.Pass))))
    if texts[0][0] != texts[1][0]:
        yield f"{texts[0][0]} is {texts[1][0]}"
    more = [s for s in texts[1][1] if s not in texts[0][1]]
    less = [s for s in texts[0][1] if s not in texts[1][1]]
    # A head of transformers is put on the file's own model.
    if less or any(
        "super(GenericFor" not in ast.unparse(ast.parse("")) and "GenericFor" not in s for s in more
    ):
        yield f"{len(less)} members are not there, {len(more)} others are"


def _is_upkeep(node: ast.stmt) -> bool:
    """What only documents, logs or exports, and the checks of what is installed."""
    if isinstance(node, ast.Assign):
        name = ast.unparse(node.targets[0])
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return name.startswith("_") or re.search("DOCSTRING|EXAMPLE|SAMPLE", name) is not None
        return name in ("logger", "__all__") or "PRETRAINED" in name
    return isinstance(node, ast.If | ast.Try) and any(
        isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(node)
    )
