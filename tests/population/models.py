"""The models of the installed transformers as text: what their modeling files define and need."""

from __future__ import annotations

import ast
import importlib.util
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

# Ends of main heads, those first that people train.
HEADS = ("ForCausalLM", "ForConditionalGeneration", "ForMaskedLM", "LMHeadModel", r"For[A-Z]\w+")


@cache
def find_models() -> tuple[Model, ...]:
    """Every modeling file, sorted; the auto classes make no model."""
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    paths = sorted(Path(spec.origin).parent.glob("models/*/modeling_*.py"))
    return tuple(Model(path) for path in paths if path.parent.name != "auto")


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
    def definitions(self) -> dict[str, ast.stmt]:
        """Classes, functions and assigned names at the top of the file."""
        nodes = {}
        for node in ast.parse(self.text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                nodes[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                nodes[node.targets[0].id] = node
        return nodes

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {n: node for n, node in self.definitions.items() if isinstance(node, ast.ClassDef)}

    @cached_property
    def texts(self) -> dict[str, str]:
        return {name: ast.unparse(node) for name, node in self.definitions.items()}

    @cached_property
    def imports(self) -> dict[str, str]:
        """A statement with absolute names for each imported name; "" under a condition."""
        lines: dict[str, str] = {}
        top = ast.parse(self.text)
        for node in ast.walk(top):
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                source = ""
                if isinstance(node, ast.ImportFrom):
                    above = self.module.split(".")[: -node.level] if node.level else []
                    source = f"from {'.'.join([*above, *filter(None, [node.module])])} "
                line = f"{source}import {ast.unparse(alias)}" if node in top.body else ""
                lines.setdefault(alias.asname or alias.name.partition(".")[0], line)
        return lines

    @cached_property
    def pretrained(self) -> str:
        """The class that holds `_init_weights`; of several, that with most classes of its prefix."""
        named = [name for name in self.classes if name.endswith("PreTrainedModel")]
        return max(named, key=lambda name: len(self._with_prefix(name[:-15])), default="")

    @property
    def prefix(self) -> str:
        return self.pretrained.removesuffix("PreTrainedModel")

    def _with_prefix(self, prefix: str) -> list[str]:
        return [name for name in self.classes if re.match(rf"{prefix}[A-Z]\w+$", name)]

    @cached_property
    def renamable(self) -> list[str]:
        """The classes whose names are the model's prefix and a word."""
        return self._with_prefix(self.prefix) if self.prefix else []

    @cached_property
    def public(self) -> list[str]:
        node = self.definitions.get("__all__")
        listed = ast.literal_eval(node.value) if isinstance(node, ast.Assign) else ()
        return [name for name in listed if name in self.renamable and name != self.pretrained]

    @cached_property
    def base(self) -> str:
        """The public model without a head."""
        named = [name for name in self.public if re.search(r"(?<!Head)Model$", name)]
        return min(named, key=len, default="")

    @cached_property
    def head(self) -> str:
        """The public model class that people use first."""
        heads = [name for end in HEADS for name in self.public if re.search(f"{end}$", name)]
        return (heads or [self.base])[0]

    def reachable(self, name: str) -> set[str]:
        """The definitions of the file that `name` reads, at whatever distance, and itself."""
        names, waiting = {name}, [name]
        while waiting:
            read = self._reads.get(waiting.pop(), set()) - names
            names |= read
            waiting += read
        return names

    @cached_property
    def _reads(self) -> dict[str, set[str]]:
        return {
            name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & {*self.definitions}
            for name, node in self.definitions.items()
        }

    def method(self, name: str, method: str) -> ast.FunctionDef:
        """A method of a class, or of its parents in this file; raises LookupError."""
        for member in self.classes[name].body:
            if isinstance(member, ast.FunctionDef) and member.name == method:
                return member
        return self.method("".join(map(ast.unparse, self.classes[name].bases[:1])), method)

    def qualified(self, node: ast.AST) -> ast.AST:
        """`node` with `hf.` before what this file defines, and without annotations of parameters."""
        copy = ast.parse(ast.unparse(node)).body[0]
        local = {n.arg for n in ast.walk(copy) if isinstance(n, ast.arg)} | {
            n.id for n in ast.walk(copy) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        return _Qualify({*self.definitions} - local).visit(copy)

    def signature(self, function: ast.FunctionDef) -> str:
        (node,) = [n for n in ast.walk(self.qualified(function)) if isinstance(n, ast.arguments)][
            :1
        ]
        return ast.unparse(node)


def arguments_of(function: ast.FunctionDef, changed: str = "{}") -> str:
    """The call that passes all parameters but the receiver on; `changed` is the first one's form.

    By keyword where it can be: decorators of transformers look for some arguments there.
    """
    given = function.args
    positional = [a.arg for a in given.posonlyargs]
    first, *others = [*positional, *(a.arg for a in given.args)][1:] or [""]
    passed = [changed.format(first)] if first else []
    passed += [a if given.vararg or a in positional else f"{a}={a}" for a in others]
    passed += [f"*{given.vararg.arg}"] if given.vararg else []
    passed += [f"{a.arg}={a.arg}" for a in given.kwonlyargs]
    return ", ".join([*passed, *([f"**{given.kwarg.arg}"] if given.kwarg else [])])


class _Qualify(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        qualified = ast.Attribute(ast.Name("hf", ast.Load()), node.id, node.ctx)
        return qualified if node.id in self.names else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node
