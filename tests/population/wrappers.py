"""Overrides that call their parents, of methods that differ between two releases, and what a rebase makes of them.

The override has the old parent's parameters, and gives each of them to `super()`: by position, by
name, or as `*args, **kwargs`.  Whatever it becomes, each name has to reach the new parent's
parameter of that name.
"""

from __future__ import annotations

import ast
from pathlib import Path

from patchgen.author.align.file import read_file
from patchgen.author.rebase.releases import Prover, Tree
from patchgen.author.rebase.work import Rebase
from patchgen.compiler.settings import Settings
from patchgen.syntax.text import make_source
from tests.population.upgrades import Function, Pair, parsed

FORMS = ("position", "name", "stars")


def wrapper_of(pair: Pair, form: str) -> str | None:
    """A modular file whose override calls its parent; None for a function, or `def f(self, a, /)`."""
    function = pair.old.node
    arguments = function.args
    if not pair.owner or arguments.posonlyargs or arguments.vararg:
        return None
    head = parsed_again(function).args
    for each in ast.walk(head):
        if isinstance(each, ast.arg):
            each.annotation = None
    names = [each.arg for each in arguments.args[1:]]
    by_name = [f"{name}={name}" for name in names] if form == "name" else names
    by_name += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    by_name += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    signature, given = ast.unparse(head), ", ".join(by_name)
    if form == "stars":
        signature, given = "self, *args, **kwargs", "*args, **kwargs"
    package, _, module = pair.module.rpartition(".")
    return f'''"""A variant."""

from {package} import {module} as parent


class {pair.owner}(parent.{pair.owner}):
    def {pair.member}({signature}):
        print("called")
        return super().{pair.member}({given})
'''


def parsed_again(function: Function) -> Function:
    (copy,) = ast.parse(ast.unparse(function)).body
    assert isinstance(copy, Function)
    return copy


def state_of(pair: Pair, form: str, old: Path, new: Path, trees: tuple[Tree, Tree]) -> str:
    """ "followed", "asked", "unmade", or what an argument became that it is not."""
    text = wrapper_of(pair, form)
    prover = Prover("modular_x.py", (), Settings())
    if text is None or prover.flatten(text, old).problems:
        return "unmade"
    modular = read_file(make_source(text, "modular_x.py"))
    rebased = Rebase(modular, prover, old, new, trees).run()
    if not rebased.is_done:
        return "asked"
    (owner,) = [node for node in parsed(rebased.text).body if isinstance(node, ast.ClassDef)]
    (override,) = [node for node in owner.body if isinstance(node, Function)]
    call = override.body[-1].value  # type: ignore[attr-defined]
    theirs = pair.new.node.args
    names = [each.arg for each in theirs.args[1:]]
    taken = {*names, *(each.arg for each in theirs.kwonlyargs)}
    given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    if form == "stars":
        return "followed" if ast.unparse(call).endswith("(*args, **kwargs)") else "changed"
    if len(call.args) > len(names):
        return "gives more than upstream takes"
    for name, value in given:
        if name is None:
            continue
        if ast.unparse(value) != name or (name not in taken and theirs.kwarg is None):
            return f"gives {ast.unparse(value)} as {name}"
    return "followed"
