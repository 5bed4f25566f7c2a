"""The models of the installed transformers as text: what their modeling files define and need."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

Definition = ast.ClassDef | ast.FunctionDef
# Main heads of a model, those first that people train.
HEADS = "ForCausalLM ForConditionalGeneration ForMaskedLM LMHeadModel ForImageClassification ForPreTraining"


def models() -> list[Model]:
    """Every modeling file, sorted; those of the auto classes make no model."""
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    paths = sorted(Path(spec.origin).parent.glob("models/*/modeling_*.py"))
    return [Model(path) for path in paths if path.parent.name != "auto"]


@dataclass(frozen=True)
class Model:
    """One modeling file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem.removeprefix("modeling_")

    @property
    def module(self) -> str:
        return f"transformers.models.{self.path.parent.name}.{self.path.stem}"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that the file defines at its top, imports aside."""
        assigned = {
            name.id
            for node in self.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        return frozenset({*self.classes, *self.functions, *assigned} - {"__all__"})

    @cached_property
    def imports(self) -> dict[str, str]:
        """A statement with absolute names for each name that is imported without a condition."""
        package = self.module.split(".")[:-1]
        lines = {}
        for node in self.tree.body:
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                called = f" as {alias.asname}" if alias.asname else ""
                if isinstance(node, ast.Import):
                    lines[alias.asname or alias.name.partition(".")[0]] = (
                        f"import {alias.name}{called}"
                    )
                else:
                    above = package[: len(package) - node.level + 1] if node.level else []
                    source = ".".join([*above, *([node.module] if node.module else [])])
                    lines[alias.asname or alias.name] = f"from {source} import {alias.name}{called}"
        return lines

    @cached_property
    def public(self) -> tuple[str, ...]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return tuple(name for name in ast.literal_eval(node.value) if name in self.classes)
        return ()

    @cached_property
    def pretrained(self) -> str:
        """The class that holds `_init_weights`; "" for a file without one."""
        every = [name for name in self.classes if name.endswith("PreTrainedModel")]
        return max(every, key=lambda name: len(self.renamable(name[:-15])), default="")

    @property
    def prefix(self) -> str:
        return self.pretrained.removesuffix("PreTrainedModel")

    def renamable(self, prefix: str) -> list[str]:
        """The classes whose names are `prefix` and a word."""
        return [name for name in self.classes if re.match(rf"{prefix}[A-Z]\w+$", name)]

    @cached_property
    def base(self) -> str:
        """The public model without a head."""
        named = [n for n in self.public if n.endswith("Model") and n != self.pretrained]
        return min((n for n in named if n in self.renamable(self.prefix)), key=len, default="")

    @cached_property
    def head(self) -> str:
        """The public model class that people use first."""
        mine = [name for name in self.public if name in self.renamable(self.prefix)]
        heads = [name for end in HEADS.split() for name in mine if name.endswith(end)]
        others = [name for name in mine if re.search(r"For[A-Z]", name)]
        return next(iter([*heads, *others, *([self.base] if self.base else [])]), "")

    def reachable(self, name: str) -> frozenset[str]:
        """The definitions of the file that `name` reads, at whatever distance, and itself."""
        found, waiting = {name}, [name]
        while waiting:
            for read in self._reads.get(waiting.pop(), set()) - found:
                found.add(read)
                waiting.append(read)
        return frozenset(found)

    @cached_property
    def _reads(self) -> dict[str, set[str]]:
        definitions = {**self.classes, **self.functions}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                definitions.setdefault(node.targets[0].id, node)  # a table of classes
        return {
            name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & definitions.keys()
            for name, node in definitions.items()
        }

    def method(self, name: str, method: str) -> ast.FunctionDef | None:
        """A method of a class, or of its parents in this file."""
        while name in self.classes:
            node = self.classes[name]
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == method:
                    return member
            name = ast.unparse(node.bases[0]) if node.bases else ""
        return None

    # --- code that a modular file takes over

    def qualified(self, node: ast.AST, alias: str = "hf") -> str:
        """The text of `node` with `alias.` before what this file defines."""
        local = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        local |= {
            n.id
            for n in ast.walk(node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        return ast.unparse(_Qualify(self.bound - local, alias).visit(_copy(node)))

    def signature(self, function: ast.FunctionDef) -> str:
        """The parameters without annotations."""
        arguments = _copy(function.args)
        assert isinstance(arguments, ast.arguments)
        for parameter in _parameters(arguments):
            parameter.annotation = None
        return ast.unparse(_Qualify(self.bound, "hf").visit(arguments))

    def needed_imports(self, text: str) -> list[str]:
        """The import statements of this file that code taken from it needs."""
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        return [self.imports[name] for name in sorted(names & self.imports.keys())]


def arguments_of(function: ast.FunctionDef, changed: str = "{}") -> str:
    """The call that passes all parameters but the receiver on; `changed` is the first one's form.

    By keyword where it can be: decorators of transformers look for some arguments there.
    """
    given = function.args
    positional, rest = [a.arg for a in given.posonlyargs], [a.arg for a in given.args]
    first, *others = [*positional, *rest][1:] or [""]
    passed = [changed.format(first)] if first else []
    passed += [a if given.vararg or a in positional else f"{a}={a}" for a in others]
    passed += [f"*{given.vararg.arg}"] if given.vararg else []
    passed += [f"{a.arg}={a.arg}" for a in given.kwonlyargs]
    passed += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(passed)


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    return (node for node in ast.walk(arguments) if isinstance(node, ast.arg))


def _copy(node: ast.AST) -> ast.AST:
    module = ast.parse(ast.unparse(node)) if isinstance(node, ast.stmt | ast.expr) else None
    if module is None:  # parameters are no statement
        function = ast.parse(f"def f({ast.unparse(node)}): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        return function.args
    statement = module.body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


class _Qualify(ast.NodeTransformer):
    def __init__(self, names: frozenset[str], alias: str) -> None:
        self.names, self.alias = names, alias

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names:
            return node
        return ast.Attribute(ast.Name(self.alias, ast.Load()), node.id, node.ctx)
