"""Find the models of a flat file that `AutoModel` knows, and whether the variant changes them.

    MODEL_MAPPING_NAMES = OrderedDict([("llama", "LlamaModel"), ...])

`AutoModel` builds transformers' own class for the type of a configuration, and no variant.  `heads`
and `submodels` name the class of the flat file where it differs from that.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator, Mapping

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.facts.modules import AUTO_MODELS, AUTO_MODELS_TABLE
from patchgen.syntax.same import is_same_code


def read_base_models(builder: Builder) -> Mapping[str, str]:
    """Model type and base model, from transformers' table; empty where a release has none."""
    if builder.naming.bindings.env.path(AUTO_MODELS) is None:
        return {}
    for block in builder.index(AUTO_MODELS).blocks_that_bind(AUTO_MODELS_TABLE):
        table = _read_table(block.text)
        if table is not None:
            return table
    return {}


@functools.lru_cache(maxsize=4)  # of one release, for every variant
def _read_table(text: str) -> Mapping[str, str] | None:
    """The table in the statements of `text`; None where they hold none."""
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=table) if name == AUTO_MODELS_TABLE:
                return dict(_find_string_pairs(table))
    return None


def _find_string_pairs(table: ast.expr) -> Iterator[tuple[str, str]]:
    """Every pair of two strings that is written as a tuple."""
    for node in ast.walk(table):
        match node:
            case ast.Tuple(
                elts=[ast.Constant(value=str(model_type)), ast.Constant(value=str(model))]
            ):
                yield model_type, model


def find_models(names: Collection[str], blocks: tuple[FlatBlock, ...]) -> tuple[FlatBlock, ...]:
    """The classes of the file that stand for transformers' classes of these names."""
    found = []
    for block in blocks:
        # A parent that was put aside is not the model of this file.
        if block.kind == "class" and not block.aside and block.origin.name in names:
            found.append(block)
    return tuple(found)


def differs(own: FlatBlock, blocks: tuple[FlatBlock, ...], builder: Builder) -> bool:
    """Whether a model of the file, or anything that it uses, is not the parent's."""
    by_name: dict[str, FlatBlock] = {}
    for block in blocks:
        by_name.update(dict.fromkeys(block.defines, block))
    waiting, seen = [own], {own.block_id}
    while waiting:
        block = waiting.pop()
        if _is_changed(block, builder):
            return True
        for dependency in block.dependencies:
            used = by_name.get(dependency.name)
            if used is not None and used.block_id not in seen:
                seen.add(used.block_id)
                waiting.append(used)
    return own.name != own.rewritten[-1].symbol.name


def _is_changed(block: FlatBlock, builder: Builder) -> bool:
    """Whether the code of a block is not that of the parent's module."""
    source = block.rewritten[-1]
    if source.symbol.module in builder.layers:
        return True
    if block.text == source.text:
        return False
    # Comments and docstrings may differ.
    return not is_same_code(_parse_code(block.text), _parse_code(source.text))


def _parse_code(text: str) -> ast.Module:
    """The code of a block without docstrings, which change nothing of a model."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node):
                node.body = node.body[1:]
    return tree
