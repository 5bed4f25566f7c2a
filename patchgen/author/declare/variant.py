"""A modular file as values: what the parts declare, class by class, and the text that comes of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from patchgen.author.anatomy.module import Module
from patchgen.errors import Location


@dataclass(frozen=True, slots=True)
class Declared:
    """What a part declares of class `name`: decorators, mixins before the parent, bases behind it, members as text."""

    name: str
    mixins: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """What a part does not reach in a model: where that shows, and why; `fatal` where the part is then not written.

    `hint` says what gives it all the same.
    """

    at: Location
    what: str
    fatal: bool = False
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


@dataclass(frozen=True, slots=True)
class NewModel:
    """What a part makes of the parent that is a model of its own: its classes' prefix, its type, its configuration.

    `config` is the parent's, `configuration_x.XConfig`; `public` are the parent's names of what it is used by.
    """

    old_prefix: str
    prefix: str
    model_type: str
    config: str
    public: tuple[str, ...]

    def renamed(self, name: str) -> str:
        """The name that the model has for the parent's class `name`."""
        return (
            self.prefix + name.removeprefix(self.old_prefix)
            if name.startswith(self.old_prefix)
            else name
        )

    def configuration(self) -> str:
        """The class of its configuration."""
        bases = f"MixtureOptions, {self.config}"
        return f'@strict\nclass {self.prefix}Config({bases}):\n    model_type = "{self.model_type}"'

    def exports(self) -> str:
        """Its `__all__`."""
        return f"__all__ = {sorted([f'{self.prefix}Config', *map(self.renamed, self.public)])!r}"


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part for one model: what it declares, imports and says, what it misses, and what gives the same without it."""

    part: str
    says: str = ""
    declared: tuple[Declared, ...] = ()
    imports: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    redundant: str = ""
    model: NewModel | None = None
    functions: tuple[str, ...] = ()  # of the module, before its classes


@dataclass(frozen=True, slots=True)
class Variant:
    """The modular file of `parts` over one parent."""

    parts: tuple[Contribution, ...]
    title: str = field(default="")

    def text(self, module: Module) -> str:
        """The file; a formatter makes it fit to read."""
        order = {name: number for number, name in enumerate(module.classes)}
        merged: dict[str, list[Declared]] = {}
        for declared in (one for part in self.parts for one in part.declared):
            merged.setdefault(declared.name, []).append(declared)
        imports = sorted({line for part in self.parts for line in part.imports})
        model = next((part.model for part in self.parts if part.model), None)
        names = sorted(merged, key=lambda name: order.get(name, 0))
        classes = [
            _class(module, name, merged[name], model.renamed(name) if model else name)
            for name in names
        ]
        classes = [model.configuration(), *classes, model.exports()] if model else classes
        functions = _unique(text for part in self.parts for text in part.functions)
        parent = ".".join(module.name.split(".")[:-1])
        lines = [self._docstring(module), "", *imports, ""]
        lines += [f"from {parent} import {module.name.split('.')[-1]} as {module.alias}", "", ""]
        return "\n".join([*lines, "\n\n\n".join([*functions, *classes]), ""])

    def _docstring(self, module: Module) -> str:
        parts = " and ".join(
            [", ".join(p.part for p in self.parts[:-1])] * (len(self.parts) > 1)
            + [self.parts[-1].part]
        )
        head = self.title or f"{module.alias} with {parts}, written by `patchgen new`."
        body = "\n\n".join(textwrap.fill(part.says, 118) for part in self.parts if part.says)
        missed = _unique(f"- {missing}" for part in self.parts for missing in part.missing)
        left = ["What stays as it was:\n\n" + "\n".join(missed)] if missed else []
        return '"""' + "\n\n".join([head, body, *left]).replace("\\", "") + '\n"""'


def _class(module: Module, name: str, declared: list[Declared], called: str) -> str:
    before = _unique(one for d in declared for one in d.mixins)
    behind = _unique(one for d in declared for one in d.behind)
    members = _unique(one for d in declared for one in d.members)
    above = "".join(f"@{one}\n" for one in _unique(one for d in declared for one in d.decorators))
    body = textwrap.indent("\n\n".join(members), "    ") if members else "    pass"
    return (
        f"{above}class {called}({', '.join([*before, f'{module.alias}.{name}', *behind])}):\n{body}"
    )


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
