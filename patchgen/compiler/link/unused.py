"""Say what of a modular file nobody uses: its name is probably misspelt, or upstream gave it up.

    class LlamaRMSNrm(llama.LlamaRMSNorm): ...      PG420: LlamaRMSNorm stays in use, as it was
    class LlamaMLP(llama.LlamaMLP):
        def foward(self, x): ...                    PG422: overrides nothing, and nothing calls it
    def rotate_hlaf(x): ...                         PG423: nothing calls it
    clip_loss = sigmoid_loss                        PG423: upstream has another name for it now

In: the blocks of all outputs of one plan.  Out: a warning for each such declaration of the modular
file itself, and an error, PG424, where it replaces nothing of the model that it is named after.

A name counts as used where the word stands anywhere in the outputs but at its own definition, if
only in a string: a warning that is wrong does more harm than one that is missing.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.outside import outside
from patchgen.compiler.plan.prefixes import MODELING
from patchgen.compiler.plan.words import is_edit, removed_name
from patchgen.facts.bases import CALLED_BY_NAME, FOR_USERS
from patchgen.syntax.blocks import Block
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, PatchgenError, Problem, find_near
from patchgen.syntax.text import count_words
from patchgen.syntax.trees import Function, parse_class

_NAMED = {"def": "function", "assign": "name"}
_OR_EXPORT = "delete it, or list it in __all__ if others import it"


def find_unused(blocks: Sequence[FlatBlock], builder: Builder) -> Iterator[Problem]:
    """What nothing uses: functions and values, then classes and their methods."""
    plan = builder.plan
    outputs = _Outputs(blocks, builder)
    refusals = [*_refuse_variant_of_nothing(outputs)]
    yield from refusals
    # Without a parent there is no name that can be missed.
    if refusals or not plan.parents:
        return
    for block in plan.modular.blocks:
        if block.kind in _NAMED:
            yield from _check_name(block, outputs)
    for declaration in outputs.own:
        warnings = [*_check_class(declaration, outputs)]
        # Of a class that nothing uses, the methods are not worth more words.
        yield from warnings or _check_methods(declaration, outputs)


def find_ancestors(declaration: Declaration, builder: Builder) -> tuple[Symbol, ...]:
    """The classes that `declaration` derives from; none where they cannot be known."""
    try:
        return builder.lineages.mro(declaration.symbol, declaration.at)[1:]
    except PatchgenError:
        return ()


@dataclass(frozen=True)
class _Outputs:
    """The blocks of all outputs, and what they name."""

    blocks: Sequence[FlatBlock]
    builder: Builder

    @cached_property
    def text(self) -> str:
        """The code of all outputs."""
        return "\n".join(block.text for block in self.blocks)

    @cached_property
    def own(self) -> tuple[Declaration, ...]:
        """The classes of the modular file itself."""
        plan = self.builder.plan
        module = plan.modular.source.module
        return tuple(each for each in plan.declarations if each.symbol.module == module)

    @cached_property
    def exported(self) -> frozenset[str]:
        """What the author exports is for others to use."""
        layers = self.builder.plan.layers
        return frozenset[str]().union(*(layer.exports or () for layer in layers))

    @cached_property
    def places(self) -> dict[str, Symbol | None]:
        """What code of the parents finds in place of each class of a parent, by its new name."""
        naming = self.builder.naming
        places = {}
        for module in naming.plan.parents:
            for name in self.builder.index(module).classes:
                resolution = naming.resolve(Symbol(module, name), module)
                places[resolution.name] = resolution.key
        return places

    def definition(self, name: str) -> str:
        """What the outputs have where `name` is defined; "" if it is in none of them."""
        return "\n".join(block.text for block in self.blocks if name in block.defines)

    def names(self, name: str, definition: str) -> bool:
        """Whether `name` stands anywhere but in the text of its `definition`."""
        return _count_uses(name, self.text) > _count_uses(name, definition)

    def is_for_users(self, declaration: Declaration) -> bool:
        """Whether nothing in the outputs has to mention the class: users import it."""
        names = {symbol.name for symbol in find_ancestors(declaration, self.builder)}
        return declaration.kind != MODELING or not names.isdisjoint(FOR_USERS)


def _count_uses(name: str, text: str) -> int:
    """How often the word `name` stands in `text` otherwise than as the name of a definition."""
    return count_words(name, text, rf"(?<!\bdef {name})(?<!\bclass {name})")


def _check_class(declaration: Declaration, outputs: _Outputs) -> Iterator[Problem]:
    name = declaration.symbol.name
    naming = outputs.builder.naming
    definition = outputs.definition(name)
    is_used = declaration.symbol in outputs.places.values() or name in outputs.exported
    # A mixin stands in the classes that it was merged into, and nowhere else.
    if is_used or not definition or outputs.names(name, definition):
        return
    ancestors = find_ancestors(declaration, outputs.builder)
    parent = next(
        (ancestor for ancestor in ancestors if ancestor.module in naming.plan.parents), None
    )
    what = f"the class {name}"
    hint = ""
    near = _suggest(name, outputs.places)
    stays = False
    if parent is not None:
        place = naming.resolve(parent, parent.module)
        is_near = is_misspelt(name, (place.name, parent.name))
        near = f"did you mean {place.name}? " if is_near else ""
        hint = f"only a class of the name {place.name} takes its place; "
        stays = any(block.symbol == parent for block in outputs.blocks)
        if stays:
            what += f", and {place.name} stays as it is"
    has_model = naming.plan.bases or any(map(outputs.is_for_users, outputs.own))
    # A file of blocks is for other files to import, and so is every model.
    is_for_others = outputs.is_for_users(declaration) or not (has_model or stays)
    if not is_for_others or (parent is not None and near):
        yield _warn(declaration.at, "PG420", what, near + hint + _OR_EXPORT)


def _check_name(block: Block, outputs: _Outputs) -> Iterator[Problem]:
    name = block.name
    # A decorator may use what stands below it: `@register`; Python reads `__version__`.
    is_read = not name or block.text.startswith("@") or name.startswith("__")
    if is_read or name in outputs.exported or outputs.names(name, outputs.definition(name)):
        return
    plan = outputs.builder.plan
    alike: set[str] = set()
    for module in plan.parents:
        index = outputs.builder.index(module)
        alike |= {other.name for other in index.blocks if other.kind in _NAMED}
        replaced = index.definition(name)
        # What its own module never named is there for others.
        if replaced is not None:
            uses = _count_uses(name, index.source.text)
            if uses == _count_uses(name, replaced.text):
                return
    at = plan.modular.source.at(block.first)
    hint = _suggest(name, alike - {name}) + _OR_EXPORT
    yield _warn(at, "PG423", f"the {_NAMED[block.kind]} {name}", hint)


def _check_methods(declaration: Declaration, outputs: _Outputs) -> Iterator[Problem]:
    name = declaration.symbol.name
    naming = outputs.builder.naming
    block = naming.plan.modular.definition(name)
    assert block is not None
    unnamed: list[Function] = []
    attributes: dict[str, ast.stmt] = {}
    for node in parse_class(block.text).body:
        if isinstance(node, Function) and not _is_named(node, block, outputs):
            # An edit has a name of its own, and a removal overrides.
            overrides = removed_name(node) is not None
            if not overrides and not is_edit(naming.plan.modular, node, naming.bindings):
                unnamed.append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for attribute in bound_names([node]):
                if not outputs.names(attribute, block.text):
                    attributes[attribute] = node
    bases = outside(naming.bindings.env)
    is_asked = unnamed or attributes
    inherited = bases.inherited(declaration.symbol, naming.plan) if is_asked else None
    # What cannot be read may have any method.
    if inherited is None:
        return
    # A class that is written out has the methods of the one whose place it takes.
    known = set(inherited)
    for parent in naming.plan.parents:
        replaced = outputs.builder.index(parent).definition(name)
        if replaced is not None and replaced.kind == "class":
            known.update(bound_names(parse_class(replaced.text).body))
    unnamed = [node for node in unnamed if node.name not in known]
    # Files of bases are read where something is left.
    if not unnamed and attributes.keys() <= inherited:
        return
    called = bases.texts_of_bases(naming.plan)
    for attribute, statement in attributes.items():
        # One that is new may be read from outside.
        is_known = attribute in inherited or count_words(attribute, called)
        near = "" if is_known else find_near(attribute, inherited)
        # A configuration has fields of its own.
        if declaration.kind != MODELING and not is_misspelt(attribute, [near]):
            continue
        if near:
            hint = f"did you mean {near}? "
            yield _warn_of_member(attribute, statement, declaration, hint, outputs)
    # Those who import a model call what is public.
    is_for_users = outputs.is_for_users(declaration)
    for node in unnamed:
        if count_words(node.name, called):
            continue
        is_public = is_for_users and not node.name.startswith("_")
        if not is_public or is_misspelt(node.name, known):
            near = _suggest(node.name, known)
            yield _warn_of_member(node.name, node, declaration, near, outputs)


def _warn_of_member(
    member: str,
    node: ast.stmt,
    declaration: Declaration,
    near: str,
    outputs: _Outputs,
) -> Problem:
    """The warning that a member of a class has a name that nothing knows."""
    modular = outputs.builder.plan.modular
    name = declaration.symbol.name
    block = modular.definition(name)
    assert block is not None
    at = modular.source.at(block.first + node.lineno - 1, node.col_offset)
    what = f"{name}.{member}, and it overrides nothing"
    hint = "delete it, or name it in the docstring of the class if others use it"
    return _warn(at, "PG422", what, near + hint)


def _is_named(node: Function, block: Block, outputs: _Outputs) -> bool:
    """Whether Python or torch calls the method, or the outputs name it or its beginning.

    getattr(self, f"attend_{kind}")     may call `attend_locally`
    """
    name = node.name
    if name in CALLED_BY_NAME or (name.startswith("__") and name.endswith("__")):
        return True
    lines = block.text.split("\n")[node.lineno - 1 : node.end_lineno]
    text = "\n".join(lines)
    beginnings = [name[: match.end()] for match in re.finditer("(?<=[^_])_", name)]
    return outputs.names(name, text) or any(
        _count_uses(start, outputs.text) for start in beginnings
    )


def _refuse_variant_of_nothing(outputs: _Outputs) -> Iterator[Problem]:
    """The error of a file that is named after a parent's model, and has no model in it."""
    plan = outputs.builder.plan
    if plan.bases or any(
        outputs.is_for_users(declaration) or declaration.symbol.name in outputs.exported
        for declaration in outputs.own
    ):
        return
    name = plan.modular.source.module.rpartition(".")[2].removeprefix("modular_")
    for declaration in outputs.own:
        for base in declaration.bases:
            parent = base.symbol.module
            _, _, model = parent.rpartition(".")[2].partition("_")
            prefix = plan.prefixes.get(parent)
            # `TinyMLP` is of a new model, `LlamaMLPClamped` and `LlamaFastMLP` are of a Llama.
            is_new = prefix is not None and not prefix.new.startswith(prefix.olds)
            if parent in plan.parents and not is_new and f"{name}_".startswith(f"{model}_"):
                what = f"no class takes the place of one of {parent}: the output has no model"
                hint = f"write `class {base.symbol.name}({base.expression})`, with the parent's "
                hint += "name; list classes that others import in __all__"
                yield Problem(declaration.at, "PG424", what, hint)
                return


def _suggest(name: str, others: Iterable[str]) -> str:
    """`did you mean X? ` with the nearest of `others`, if one is near."""
    alike = sorted(other for other in others if other.startswith("_") == name.startswith("_"))
    near = difflib.get_close_matches(name, alike, n=1, cutoff=0.75)
    return f"did you mean {near[0]}? " if near else ""


def is_misspelt(name: str, others: Iterable[str]) -> bool:
    """Whether a letter is missing or too much in `name`, or two are swapped.

    `get_decoder` is no misspelt `get_encoder`, nor `LlamaNorm2` a misspelt `LlamaNorm`.
    """
    for other in others:
        start = len(os.path.commonprefix([name, other]))
        here = name[start:]
        there = other[start:]
        end = len(os.path.commonprefix([here[::-1], there[::-1]]))
        here = here[: len(here) - end]
        there = there[: len(there) - end]
        differing = here + there
        is_letter = len(differing) == 1
        is_swapped = len(here) == 2 and here == there[::-1]
        if differing.islower() and (is_letter or is_swapped):
            return True
    return False


def _warn(at: Location, code: str, what: str, hint: str) -> Problem:
    return Problem(at, code, f"nothing uses {what}", hint, "warning")
