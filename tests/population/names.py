"""Names of two models in one file, orders of bases, and parents by the package's name: for every model.

A modular file says by aliases what it means.  The judge reads the flat file: what it has under the
names there must be what the models define, with all that this reads in turn, as Python finds it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from patchgen.syntax.bound import bound_names
from tests.population.models import Model, find_models

Value = ast.FunctionDef | ast.Assign


@dataclass(frozen=True)
class NamedCase:
    """A modular file; `means` are the models and the names of what `probe` returns there."""

    name: str
    text: str
    means: tuple[tuple[Model, str], ...]


_DEFINED = re.compile(r"^(?:def (\w+)\(|(\w+) = )", re.MULTILINE)


@cache
def _definers() -> dict[str, list[Model]]:
    """The models that define each function or value; the search spares parsing all of them."""
    by_name: dict[str, list[Model]] = defaultdict(list)
    for model in find_models():
        for function, value in _DEFINED.findall(model.text):
            by_name[function or value].append(model)
    return by_name


def _find_other(model: Model, name: str) -> Model | None:
    """A model with another definition of that name; with loggers, all texts are one."""
    others = [other for other in _definers()[name] if other is not model]
    own = ast.unparse(model.definitions[name])
    start = len(model.name) % len(others) if others else 0
    for other in others[start:] + others[:start]:
        if name == "logger" or ast.unparse(other.definitions[name]) != own:
            return other
    return None


def alias_cases(model: Model) -> Iterator[NamedCase]:
    """For each function or value, one of the same name and another text in another model."""
    owner = next((name for name in model.renamable if model.classes[name].body), "")
    if not owner:
        return
    for name, node in model.definitions.items():
        if not isinstance(node, Value) or name == "__all__":
            continue
        other = _find_other(model, name)
        if other is None:
            continue
        imports = f"from {model.module} import {owner} as Parent\nfrom {model.module} import {name} as own\n"
        imports += f"from {other.module} import {name} as other\n\n\n"
        probe = "(Parent):\n    def probe(self):\n        return own, other\n"
        means = ((model, name), (other, name))
        new = owner.replace(model.prefix, "Tiny", 1)
        yield NamedCase(f"aliases of {name}", f"{imports}class {owner}{probe}", means)
        yield NamedCase(f"new model, {name}", f"{imports}class {new}{probe}", means)
        if isinstance(node, ast.FunctionDef):
            own = f"def {name}(*args, **kwargs):\n    return other(*args, **kwargs)\n\n\n"
            text = imports.replace(f"from {model.module} import {name} as own\n", "") + own
            probe = f"class {owner}(Parent):\n    def probe(self):\n        return (other,)\n"
            yield NamedCase(f"own {name} over another", text + probe, means[1:])


STRANGER = "kernels_of_mine"


def import_cases(model: Model) -> Iterator[NamedCase]:
    """The modular file imports another thing under a name that its parent imports and reads."""
    owner = next((name for name in model.renamable if model.classes[name].body), "")
    for name, line in model.imports.items() if owner else ():
        is_submodule = line.startswith("import ") and "." in line and " as " not in line
        # A file's own class may take the place of what AutoModel builds.
        is_replaced = name.startswith("Auto") or line.startswith("from __future__")
        if not line or is_submodule or is_replaced:
            continue
        text = f"from {STRANGER} import {name}\nfrom {model.module} import {owner} as Parent\n\n\n"
        for new in (owner, owner.replace(model.prefix, "Tiny", 1)):
            probe = f"class {new}(Parent):\n    def probe(self):\n        return ({name},)\n"
            yield NamedCase(f"import of {name}, {new}", text + probe, ((model, name),))


def find_other_import(case: NamedCase, flat: str) -> str:
    """What reads another import than the modular file and its parent say; "" for nothing."""
    ((model, name),) = case.means
    theirs, paths = _paths(str(model.imports[name]))[name], _paths(flat)
    for node in ast.parse(flat).body:
        if isinstance(node, ast.ClassDef):
            read = {paths.get(n.id) for n in ast.walk(node) if isinstance(n, ast.Name)}
            is_changed = any(getattr(each, "name", "") == "probe" for each in node.body)
            if (f"{STRANGER}.{name}" in read) != is_changed:
                return f"{node.name} reads {read}"
            before = model.classes.get(node.name)
            if before and name in {n.id for n in ast.walk(before) if isinstance(n, ast.Name)}:
                if theirs not in read:
                    return f"{node.name} does not read {theirs}"
    return ""


@dataclass(frozen=True)
class Reader:
    """A module as text: its definitions and what its imports name."""

    definitions: Mapping[str, ast.stmt]
    imports: Mapping[str, str]

    def says(self, name: str, above: tuple[str, ...] = ()) -> str:
        """What `name` is, with what it reads, whatever definitions are called."""
        node = self.definitions.get(name)
        if name in above:
            return f"<{above.index(name)}>"
        if node is None:
            return self.imports.get(name, name)
        if isinstance(node, ast.ClassDef):
            return "class"
        return _Said(self, (*above, name)).text(node)


class _Said(ast.NodeTransformer):
    def __init__(self, reader: Reader, above: tuple[str, ...]) -> None:
        self.reader, self.above = reader, above

    def text(self, node: ast.stmt) -> str:
        copy = ast.parse(ast.unparse(node)).body[0]
        self.local = set(bound_names(copy.body)) if isinstance(copy, ast.FunctionDef) else set()
        for inner in ast.walk(copy):
            if isinstance(inner, ast.arg):
                self.local.add(inner.arg)
                inner.annotation = None
            elif isinstance(inner, ast.ImportFrom):
                inner.level, inner.module = 0, (inner.module or "").removeprefix("transformers.")
        if isinstance(copy, ast.FunctionDef):
            copy.name, copy.returns, copy.decorator_list = "_", None, []
            if ast.get_docstring(copy) is not None:
                copy.body = copy.body[1:]
        if isinstance(copy, ast.Assign):
            copy.targets = [ast.Name("_", ast.Store())]
        return ast.unparse(self.visit(copy))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.local or isinstance(node.ctx, ast.Store) or node.id.startswith("__"):
            return node
        inner = self.reader.says(node.id, self.above)
        return ast.Name(f"⟨{inner}⟩", ast.Load())


def reader_of_model(model: Model) -> Reader:
    return Reader(model.definitions, _paths("\n".join(filter(None, model.imports.values()))))


def reader_of_text(text: str) -> Reader:
    nodes: dict[str, ast.stmt] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            nodes[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            nodes[node.targets[0].id] = node
    return Reader(nodes, _paths(text))


def _paths(text: str) -> dict[str, str]:
    paths: dict[str, str] = {}
    for node in ast.parse(text).body:
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            path = source + (alias.name if alias.asname or source else alias.name.split(".")[0])
            paths[alias.asname or alias.name.partition(".")[0]] = path
    return paths


def find_wrong(case: NamedCase, flat: str) -> str:
    """What `probe` of the flat file returns otherwise than the modular file says; "" for nothing."""
    reader = reader_of_text(flat)
    for (model, name), read in zip(case.means, _returned(flat), strict=True):
        theirs, ours = reader_of_model(model).says(name), reader.says(read)
        if theirs != ours and ours != f"{model.module}.{name}":
            return f"{read} is not {name} of {model.name}:\n{ours[:600]}\n---\n{theirs[:600]}"
    return ""


def _returned(flat: str) -> list[str]:
    """The names that `probe` of the flat file returns."""
    (returned,) = [
        node.body[-1].value
        for owner in ast.parse(flat).body
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and node.name == "probe"
    ]
    return [ast.unparse(each) for each in returned.elts]


# Orders of bases


def order_cases(model: Model) -> Iterator[tuple[str, str]]:
    """A base class of one's own before the model's, and behind it, in a variant and a new model."""
    if not model.pretrained or not model.base:
        return
    for what, prefix in (("variant", model.prefix), ("new model", "Tiny")):
        heads = dict.fromkeys([model.base, model.head])
        names = {name: prefix + name.removeprefix(model.prefix) for name in heads}
        own = f"{prefix}PreTrainedModel"
        begin = f"from {model.module} import {model.pretrained} as Base\n"
        begin += "".join(f"from {model.module} import {name} as Old{name}\n" for name in heads)
        begin += f"\n\nclass Mixin:\n    mixed = 1\n\n\nclass {own}(Base):\n    mark = 1\n"
        for form in ("{own}, Old{old}", "Old{old}, {own}", "Mixin, {own}, Old{old}"):
            classes = [
                f"class {new}({form.format(own=own, old=old)}):\n    probe = 1\n"
                for old, new in names.items()
            ]
            order = form.format(own="Own", old="")
            yield f"{what}, {order}", "\n\n".join([begin, *classes])


def orders(text: str, outside: Mapping[str, type]) -> dict[str, list[str]]:
    """The MRO of each class of a text; Python makes the classes, without their bodies.

    Raises TypeError where Python does.
    """
    made: dict[str, type] = dict(outside)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            written = [ast.unparse(base) for base in node.bases]
            bases = tuple(made.setdefault(base, type(base, (), {})) for base in written)
            made[node.name] = type(node.name, bases, {})
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if alias.asname:
                made[alias.asname] = made.setdefault(alias.name, type(alias.name, (), {}))
    return {name: [each.__name__ for each in cls.__mro__] for name, cls in made.items()}


def find_disorder(model: Model, text: str, flat: str) -> str:
    """What of the order of bases differs from Python's; "" for nothing."""
    theirs: dict[str, type] = {}
    for name, node in model.classes.items():
        bases = tuple(theirs.setdefault(b, type(b, (), {})) for b in map(ast.unparse, node.bases))
        theirs[name] = type(name, bases, {})
    want = orders(text, theirs)
    try:
        have = orders(flat, {})
    except TypeError as error:
        return str(error)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name in have:
            # What is merged is no base any more; the others stand in one order.
            left = [*dict.fromkeys(n for n in want[node.name] if n in have[node.name])]
            kept = [name for name in have[node.name] if name in left]
            if left != kept:
                return f"{node.name}: {kept} is not {left}"
    return ""
