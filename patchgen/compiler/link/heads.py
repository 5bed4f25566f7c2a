"""Let the generic heads of transformers use the base model of the flat file.

    class LlamaForTokenClassification(GenericForTokenClassification, LlamaPreTrainedModel): ...

    class LlamaForTokenClassification(GenericForTokenClassification, LlamaPreTrainedModel):
        def __init__(self, config):
            super(GenericForTokenClassification, self).__init__(config)
            self.model = LlamaModel._from_config(config)      # was AutoModel.from_config(config)

A generic head builds its base model through `AutoModel`, which knows transformers' own class for
the model type and no variant.  Without this change, the classifier of a variant would silently use
the parent's model.  The order in which modules are made, and so initialised at random, stays.

Nothing changes where the base model of the file equals the parent's.  A model that itself asks
`AutoModel` for its parts gets a note, because its configuration decides at run time which class is
built.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from patchgen.compiler.link.dependencies import Dependency
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.footer import parent_model_types
from patchgen.compiler.link.gather import Gathered
from patchgen.compiler.link.own_models import differs, find_models, read_base_models
from patchgen.compiler.link.qualify import qualify_names
from patchgen.compiler.plan.model import Symbol
from patchgen.facts.modules import GENERIC_HEADS
from patchgen.syntax.scopes import references
from patchgen.syntax.trees import parse_class

_AUTO_CALL = "AutoModel.from_config(config)"
_SUPER_CALL = "super().__init__(config)"


def rebind_heads(gathered: Gathered, builder: Builder) -> Gathered:
    """Put every generic head on the base model of the file, where that is not the parent's."""
    # A diff base declares nothing, and is transformers' own file.
    is_diff_base = not any(_is_declared(block, builder) for block in gathered.blocks)
    if not is_diff_base:
        blocks = tuple(_note_auto_model(block) for block in gathered.blocks)
        gathered = replace(gathered, blocks=blocks)
    heads: dict[str, Symbol] = {}
    for block in gathered.blocks:
        for generic in _find_generic_bases(block):
            heads[block.name] = generic
    if not heads:
        return gathered
    models = _find_base_models(gathered.blocks, builder)
    # With an equal base model, AutoModel's answer is right.
    if not any(differs(model, gathered.blocks, builder) for model in models):
        return gathered
    return _rebind_all(gathered, heads, models, builder)


def _is_declared(block: FlatBlock, builder: Builder) -> bool:
    """Whether a modular file has the block."""
    return block.rewritten[0].symbol.module in builder.layers


def _rebind_all(
    gathered: Gathered,
    heads: Mapping[str, Symbol],
    models: tuple[FlatBlock, ...],
    builder: Builder,
) -> Gathered:
    """`gathered` with each of `heads`, by name with its generic class, on the model of the file."""
    imports = {dependency.name: dependency for dependency in gathered.imports}
    rebound = []
    for block in gathered.blocks:
        if block.name in heads:
            block, added = _rebind_head(block, heads[block.name], models, builder)
            # An import that was there before wins.
            for dependency in added:
                imports.setdefault(dependency.name, dependency)
        rebound.append(block)
    return replace(gathered, blocks=tuple(rebound), imports=tuple(imports.values()))


def _note_auto_model(block: FlatBlock) -> FlatBlock:
    """Add a note where the code of a class asks AutoModel for a model."""
    if block.kind != "class" or "AutoModel" not in block.text:
        return block
    asked = set()
    for node in ast.walk(parse_class(block.text)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.startswith("AutoModel"):
                asked.add(called)
    if not asked:
        return block
    # One is enough, and always the same one.
    return _add_note(block, f"a model from {min(asked)}")


def _add_note(block: FlatBlock, what: str) -> FlatBlock:
    """`block` with a note that AutoModel decides which class `what` is of."""
    note = (
        f"{block.name} takes {what}, which knows transformers' own classes: "
        "what this file changes in such a model runs there only while the variant stands behind "
        "the auto classes (patchgen.register)"
    )
    return replace(block, notes=(*block.notes, note))


def _find_generic_bases(block: FlatBlock) -> Iterator[Symbol]:
    """The generic heads among the bases of a class."""
    if block.kind != "class":
        return
    generics: dict[str, Symbol] = {}
    for dependency in block.dependencies:
        if _is_generic(dependency.symbol):
            generics[dependency.name] = dependency.symbol
    # Parsing takes longer than the look at the names.
    if not generics:
        return
    bases = parse_class(block.text).bases
    names = {base.id for base in bases if isinstance(base, ast.Name)}
    for name, symbol in generics.items():
        if name in names:
            yield symbol


def _is_generic(symbol: Symbol) -> bool:
    """Whether a class is one of the heads that transformers has for any model."""
    return symbol.module == GENERIC_HEADS and symbol.name.startswith("GenericFor")


def _find_base_models(blocks: tuple[FlatBlock, ...], builder: Builder) -> tuple[FlatBlock, ...]:
    """The classes of the file that AutoModel would take for one of the parent's configurations."""
    known = read_base_models(builder)
    wanted = {known[name] for name in parent_model_types(builder) if name in known}
    return find_models(wanted, blocks)


def _rebind_head(
    block: FlatBlock, generic: Symbol, models: tuple[FlatBlock, ...], builder: Builder
) -> tuple[FlatBlock, tuple[Dependency, ...]]:
    """The head on the base model of the file, and what it imports for that.

    Where it is not clear how to change the head, it gets a note.
    """
    if len(models) == 1:
        rebound = _write_init(models[0].name, block, generic, builder)
        if rebound is not None:
            return rebound
    return _add_note(block, f"its base model from AutoModel, by {generic.name}"), ()


def _write_init(
    own: str, block: FlatBlock, generic: Symbol, builder: Builder
) -> tuple[FlatBlock, tuple[Dependency, ...]] | None:
    """The head with an `__init__` that builds `own`, and what that method needs.

    None where the head has an `__init__`, or the one of the generic class is not as expected.
    """
    if _find_init(block.text) is not None:
        return None
    source = builder.index(GENERIC_HEADS).definition(generic.name)
    assert source is not None
    # In the names of the flat file, whose imports may have other aliases.
    rewritten = qualify_names(builder.index(GENERIC_HEADS), source, generic, builder.naming)
    inherited = _find_init(rewritten.text)
    if inherited is None or not _is_as_expected(inherited):
        return None
    base = next(
        dependency.name for dependency in block.dependencies if dependency.symbol == generic
    )
    method = _rewrite_init(inherited, own, base)
    read = {reference.name for reference in references(_parse_method(method).body, True)}
    needed: list[Dependency] = []
    for name, symbol in rewritten.dependencies.items():
        # `own` is a class of this file.
        if name in read and name != own:
            needed.append(Dependency(name, symbol, GENERIC_HEADS, False))
    return replace(block, text=_add_method(block.text, method)), tuple(needed)


@functools.lru_cache(maxsize=64)  # Every variant asks about the same few generic classes.
def _is_as_expected(method: str) -> bool:
    """Whether both calls that `_rewrite_init` changes stand in the method once.

    Another release may build the model in another way.
    """
    return method.count(_SUPER_CALL) == 1 and _count_auto_calls(method) == 1


def _rewrite_init(method: str, own: str, base: str) -> str:
    """The method of the generic class `base` for a subclass, with the model `own`."""
    lines = []
    for line in method.split("\n"):
        # The comments of the generic class explain the call of AutoModel.
        if not line.lstrip().startswith("#"):
            lines.append(line.replace(_AUTO_CALL, f"{own}._from_config(config)"))
    # The head comes before its generic class in the MRO, so that `super()` would call that one.
    return "\n".join(lines).replace(_SUPER_CALL, f"super({base}, self).__init__(config)")


def _find_init(text: str) -> str | None:
    """The lines of `__init__` in the text of a class, as they are indented there."""
    for node in parse_class(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno])
    return None


def _count_auto_calls(method: str) -> int:
    """How often a method makes its base model by AutoModel."""
    nodes = ast.walk(_parse_method(method))
    return sum(ast.unparse(node) == _AUTO_CALL for node in nodes)


def _parse_method(method: str) -> ast.Module:
    """The tree of an indented method."""
    return ast.parse(f"if True:\n{method}\n")


def _add_method(text: str, method: str) -> str:
    """Add a method to the text of a class; it replaces a last `pass` or `...`."""
    last = parse_class(text).body[-1]
    lines = text.split("\n")
    end = last.end_lineno or last.lineno
    if ast.unparse(last) not in ("pass", "..."):
        return "\n".join([*lines[:end], "", method, *lines[end:]])
    # `class A(B): ...` on one line keeps what stands before the dots.
    before = lines[last.lineno - 1].encode()[: last.col_offset].decode().rstrip()
    kept = lines[: last.lineno - 1]
    if before:
        kept.append(before)
    return "\n".join([*kept, method, *lines[end:]])
