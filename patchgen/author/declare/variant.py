"""A modular file as values: what the parts declare for each class, and the resulting text."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.author.anatomy.code import called, dotted, names, walk
from patchgen.author.anatomy.layers import CHECKPOINTED
from patchgen.author.anatomy.module import Module
from patchgen.author.declare.fitting import public
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.facts.modules import BIDIRECTIONAL, CAUSAL
from patchgen.syntax.errors import Location, Refusals
from patchgen.syntax.locate import make_environment

# Where a modular file imports names from, beside those of the parts and of the parent.
PLACES = {
    "Callable": "collections.abc",
    "strict": "huggingface_hub.dataclasses",
    "nn": "torch",
    CHECKPOINTED: "transformers.modeling_layers",
    **dict.fromkeys(("Hole", "edit", "new", "old"), "patchgen.edits"),
    **dict.fromkeys(CAUSAL | BIDIRECTIONAL, "transformers.masking_utils"),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a part declares for class `name`.

    `mixins` are bases before the parent, `behind` are bases after it; `members` are text.
    """

    name: str
    mixins: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """What a part does not change in a model: the place and the reason.

    `fatal`: the part is not written at all.  `hint` tells how to get the change by hand.
    """

    at: Location
    what: str
    fatal: bool = False
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


@dataclass(frozen=True, slots=True)
class NewModel:
    """A new model that a part makes of the parent, with its own prefix of classes and type.

    `config` is that of the parent, `configuration_x.XConfig`; `public` are the names of the classes
    of the parent that users import.
    """

    old_prefix: str
    prefix: str
    model_type: str
    config: str
    public: tuple[str, ...]

    def renamed(self, name: str) -> str:
        """The name in the new model for the class `name` of the parent."""
        if not name.startswith(self.old_prefix):
            return name
        return self.prefix + name.removeprefix(self.old_prefix)

    def configuration(self) -> str:
        """The class of its configuration."""
        bases = f"MixtureOptions, {self.config}"
        return f'@strict\nclass {self.prefix}Config({bases}):\n    model_type = "{self.model_type}"'

    def exports(self) -> str:
        """Its `__all__`."""
        return f"__all__ = {sorted([f'{self.prefix}Config', *map(self.renamed, self.public)])!r}"


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part for one model: its declarations and docstring, and what it leaves out.

    `redundant` tells how to get the same without the part.
    """

    part: str
    says: str = ""
    declared: tuple[Declared, ...] = ()
    missing: tuple[Missing, ...] = ()
    redundant: str = ""
    model: NewModel | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """The modular file of `parts` over one parent."""

    parts: tuple[Contribution, ...]

    def text(self, module: Module) -> str:
        """The text of the file, before formatting."""
        order = {name: number for number, name in enumerate(module.classes)}
        merged: dict[str, list[Declared]] = {}
        model: NewModel | None = None
        for part in self.parts:
            model = model or part.model
            for declared in part.declared:
                merged.setdefault(declared.name, []).append(declared)
        classes = []
        for name in sorted(merged, key=lambda name: order.get(name, 0)):
            own_name = model.renamed(name) if model is not None else name
            classes.append(_class(module, name, merged[name], own_name))
        if model is not None:
            classes = [model.configuration(), *classes, model.exports()]
        parent, _, file = module.name.rpartition(".")
        text = "\n\n\n".join(classes)
        imports = _imports(text, [part.part for part in self.parts])
        if model is not None:
            imports.append(f"from {parent} import {model.config.partition('.')[0]}")
        lines = [self._docstring(module), "", *sorted(imports), ""]
        return "\n".join(
            [*lines, f"from {parent} import {file} as {module.alias}", "", "", text, ""]
        )

    def _docstring(self, module: Module) -> str:
        *others, parts = [part.part for part in self.parts]
        if others:
            parts = f"{', '.join(others)} and {parts}"
        head = f"{module.alias} with {parts}, written by `patchgen new`."
        body = "\n\n".join(textwrap.fill(part.says, 118) for part in self.parts if part.says)
        missed = _unique(f"- {missing}" for part in self.parts for missing in part.missing)
        left = ["What stays as it was:\n\n" + "\n".join(missed)] if missed else []
        return '"""' + "\n\n".join([head, body, *left]).replace("\\", "") + '\n"""'


def _class(module: Module, name: str, declared: list[Declared], called: str) -> str:
    mixins: list[str] = []
    behind: list[str] = []
    members: list[str] = []
    for one in declared:
        mixins += one.mixins
        behind += one.behind
        members += one.members
    bases = ", ".join([*_unique(mixins), f"{module.alias}.{name}", *_unique(behind)])
    body = textwrap.indent("\n\n".join(_unique(members)) or "pass", "    ")
    return f"class {called}({bases}):\n{body}"


def _imports(text: str, parts: Sequence[str]) -> list[str]:
    """The imports of what `text` takes from torch, transformers, patchgen and its `parts`."""
    tree = ast.parse(text)
    read = names(tree)
    taken = {called(call) for call in walk(tree, ast.Call)}
    taken |= {dotted(base) for node in walk(tree, ast.ClassDef) for base in node.bases}
    places = {name: place for name, place in PLACES.items() if name in read}
    for part in (*parts, "checkpoint"):  # other parts take what keeps choices from it
        for name in sorted(public(part) & taken):
            places.setdefault(name, f"patchgen.parts.{part}")
    lines = ["from torch.nn import functional as F"] if "F" in read else []
    lines += [f"import {name}" for name in ("math", "torch") if name in read]
    for place in set(places.values()):
        several = sorted(name for name in places if places[name] == place)
        lines.append(f"from {place} import {', '.join(several)}")
    return lines


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


@dataclass(frozen=True, slots=True)
class Draft:
    """The `text` of a modular file over a modeling file, called `alias`; `declared` are classes."""

    alias: str
    text: str
    parts: tuple[str, ...]
    declared: tuple[str, ...]

    @property
    def place(self) -> Path:
        return Path("modular", self.alias, f"modular_{self.alias}_{'_'.join(self.parts)}.py")


def flatten_draft(draft: Draft, home: Path) -> Flattened:
    """Its outputs, in a project at `home`.  Raises Refusals with what the converter says."""
    path = home.resolve() / draft.place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draft.text, encoding="utf-8", newline="\n")
    flat = flatten(path, make_environment(home), Settings())
    if flat.problems:
        raise Refusals(sorted(flat.problems))
    return flat
