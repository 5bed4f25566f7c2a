"""A modular file as values: what the parts declare for each class, and the resulting text."""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen import disk
from patchgen.author.anatomy.code import names
from patchgen.author.anatomy.module import Module, Unfit
from patchgen.author.declare.edits import public
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.facts.modules import BIDIRECTIONAL, CAUSAL, CHECKPOINTED
from patchgen.syntax.errors import Location, Refusals
from patchgen.syntax.locate import make_environment

# Where a modular file imports names from, beside those of the parts and of the parent.
PLACES = {
    "Callable": "collections.abc",
    "strict": "huggingface_hub.dataclasses",
    "nn": "torch",
    "LayerNorm": "torch.nn",
    CHECKPOINTED: "transformers.modeling_layers",
    "ALL_ATTENTION_FUNCTIONS": "transformers.modeling_utils",
    "sdpa_attention_forward": "transformers.integrations.sdpa_attention",
    "create_position_bias_mask": "transformers.integrations.sdpa_attention",
    **dict.fromkeys(("Hole", "before", "edit", "new", "old"), "patchgen.edits"),
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

    def and_also(self, other: Declared) -> Declared:
        """What two parts declare for one class."""
        mixins = self.mixins + other.mixins
        behind = self.behind + other.behind
        return Declared(self.name, mixins, behind, self.members + other.members)


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
    """A new model that a part makes of the parent: of `Bert`, its `prefix`, a `BertMixture`.

    `file` has the configuration of the parent; `public` are the names of the classes of the parent
    that users import.
    """

    prefix: str
    model_type: str
    file: str
    public: tuple[str, ...]

    @property
    def ending(self) -> str:
        """The end of the names of its files."""
        return self.model_type.rpartition("_")[2]

    def renamed(self, name: str) -> str:
        """The name in the new model for the class `name` of the parent."""
        return re.sub(f"^{self.prefix}", f"{self.prefix}Mixture", name)

    def around(self, classes: Sequence[str]) -> list[str]:
        """The classes between its configuration and its `__all__`."""
        name = f"{self.prefix}MixtureConfig"
        head = f"@strict\nclass {name}(MixtureOptions, {self.file}.{self.prefix}Config):"
        exports = sorted([name, *map(self.renamed, self.public)])
        config = f'{head}\n    model_type = "{self.model_type}"'
        return [config, *classes, f"__all__ = {exports!r}"]


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

    @property
    def fits(self) -> bool:
        """Whether it can be written: something is declared, and nothing speaks against it."""
        return bool(self.declared) and not any(missing.fatal for missing in self.missing)

    @property
    def why_left_out(self) -> str:
        """Why it is redundant, or the first reason why it does not fit."""
        reasons = [str(missing) for missing in self.missing if missing.fatal]
        return self.redundant or reasons[0]


Writer = Callable[[Module], Contribution]


def refusing(writer: Writer) -> Writer:
    """The writer of a part; what it raises as Unfit is why the part is not written."""

    @functools.wraps(writer)
    def contribution(module: Module) -> Contribution:
        try:
            return writer(module)
        except Unfit as unfit:
            at = module.at(unfit.node or module.tree)
            missing = Missing(at, unfit.why, True, unfit.hint)
            return Contribution(writer.__name__, missing=(missing,))

    return contribution


def write(parts: Sequence[Contribution], left_out: Sequence[Contribution], module: Module) -> str:
    """The text of the modular file of `parts` over one parent, before formatting.

    Its docstring says why each of `left_out` is not in it.
    """
    models = [part.model for part in parts if part.model is not None]
    model = models[0] if models else None
    classes = _class_statements(parts, model, module)
    if model is not None:
        classes = model.around(classes)
    text = "\n\n\n".join(classes)
    parent, _, file = module.name.rpartition(".")
    imports = _imports(text, [part.part for part in parts])
    if model is not None:
        imports.append(f"from {parent} import {model.file}")
    imports.sort()
    own = f"from {parent} import {file} as {module.alias}"
    docstring = _docstring(parts, left_out, module)
    return "\n".join([docstring, "", *imports, "", own, "", "", text, ""])


def _class_statements(
    parts: Sequence[Contribution], model: NewModel | None, module: Module
) -> list[str]:
    """The class statements of all `parts`, in the order of the parent's file."""
    merged: dict[str, Declared] = {}
    for part in parts:
        for declared in part.declared:
            of_others = merged.get(declared.name, Declared(declared.name))
            merged[declared.name] = of_others.and_also(declared)
    order = {name: number for number, name in enumerate(module.classes)}
    statements = []
    for name in sorted(merged, key=lambda name: order.get(name, 0)):
        declared = merged[name]
        parent = f"{module.alias}.{name}"
        bases = [*_unique(declared.mixins), parent, *_unique(declared.behind)]
        body = "\n\n".join(_unique(declared.members)) or "pass"
        renamed = model.renamed(name) if model is not None else name
        statements.append(f"class {renamed}({', '.join(bases)}):\n{textwrap.indent(body, '    ')}")
    return statements


def _docstring(
    parts: Sequence[Contribution], left_out: Sequence[Contribution], module: Module
) -> str:
    *others, names = [part.part for part in parts]
    if others:
        names = f"{', '.join(others)} and {names}"
    body = [f"{module.alias} with {names}, written by `patchgen new`."]
    body.append("\n\n".join(textwrap.fill(part.says, 118) for part in parts if part.says))
    missing: list[str] = []
    for part in parts:
        missing += [f"- {one}" for one in part.missing]
    if missing:
        body.append("What stays as it was:\n\n" + "\n".join(_unique(missing)))
    if left_out:
        body.append("What is not written:\n\n" + "\n".join(map(_why_not, left_out)))
    return '"""' + "\n\n".join(body).replace("\\", "") + '\n"""'


def _why_not(part: Contribution) -> str:
    """A line of a docstring: why the part is left out."""
    reason = " ".join(part.why_left_out.split())
    line = f"- {part.part}: {reason}"
    return textwrap.fill(line, 118, subsequent_indent="  ", break_on_hyphens=False)


def _imports(text: str, parts: Sequence[str]) -> list[str]:
    """The imports of what `text` takes from torch, transformers, patchgen and its `parts`."""
    read = names(ast.parse(text))
    modules = {name: module for name, module in PLACES.items() if name in read}
    for part in (*parts, "checkpoint", "loss", "norm"):  # other parts take mixins of these
        for name in public(part) & read:
            modules.setdefault(name, f"patchgen.parts.{part}")
    imported: dict[str, list[str]] = defaultdict(list)
    for name in sorted(modules):
        imported[modules[name]].append(name)
    lines = [f"from {module} import {', '.join(several)}" for module, several in imported.items()]
    if "F" in read:
        lines.append("from torch.nn import functional as F")
    lines += [f"import {name}" for name in ("math", "torch") if name in read]
    return lines


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


@dataclass(frozen=True, slots=True)
class Draft:
    """The `text` of a modular file over a modeling file, called `alias`; `declared` are classes.

    The variant is called `alias` and `ending`.
    """

    alias: str
    ending: str
    text: str
    parts: tuple[str, ...]
    declared: tuple[str, ...]

    @property
    def place(self) -> Path:
        return Path("modular", self.alias, f"modular_{self.alias}_{self.ending}.py")


def flatten_draft(draft: Draft, home: Path) -> Flattened:
    """Its outputs, in a project at `home`.  Raises Refusals with what the converter says."""
    path = home.resolve() / draft.place
    disk.write(path, draft.text, home, lasting=False)
    flat = flatten(path, make_environment(home), Settings())
    if flat.problems:
        raise Refusals(sorted(flat.problems))
    return flat
