"""Register the checkpoint conversions of transformers for a flat module.

    configuration_mixtral.py     model_type = "mixtral"
    conversion_mapping.py        "mixtral": [...]

    the flat file ends with      register_checkpoint_conversion_mapping(
                                     "mixtral",
                                     get_checkpoint_conversion_mapping("mixtral"),
                                     overwrite=True)

transformers rewrites many checkpoints while it loads them, and back while it saves them.  For
Mixtral it merges the matrices of all experts into one parameter.  It looks the rewriting up in
`transformers.conversion_mapping`, first by class name, then by `config.model_type`.  For *custom
code*, a class whose module is not inside transformers, it does so only where one of the two names
was registered by `register_checkpoint_conversion_mapping`.  Without that, a flat Mixtral would load
transformers' own checkpoint with every expert missing and initialised at random, and would save
keys that nothing reads.

A flat module therefore registers what is already there, name by name.  Where its classes say that
they are no custom code (`footer`), that is only what has another name than in transformers:

- The same names and no others.  A conversion under a class name is applied for each nested model,
  one under a model type once from the root.  To register `MixtralModel` with the entry of `mixtral`
  would convert twice, in transformers' own class too.
- A copy of the entry in force (`get_checkpoint_conversion_mapping` copies).  transformers' own
  classes then convert as before, the statement may run any number of times, and an entry that the
  user registered stays.
- With `overwrite=True`, without which an existing name is a ValueError.

Registration is by name for the whole process.  Other custom code with the same model type or class
name is converted from then on too; that cannot be avoided.

In: the text of transformers/conversion_mapping.py.  Out: names, and statements as text.  Nothing is
imported.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator, Mapping

from patchgen.facts.modules import CONVERSIONS_ALIASES, CONVERSIONS_BUILDER
from patchgen.syntax.trees import statements_within

_GET = "get_checkpoint_conversion_mapping"
_REGISTER = "register_checkpoint_conversion_mapping"
IMPORT = f"from transformers.conversion_mapping import {_GET}, {_REGISTER}"

_COMMENT = "# transformers converts no checkpoint of a class outside its package unless asked to.\n"


# Each variant of a run asks about the same file, the longest one that is read.
@functools.lru_cache(maxsize=2)
def read_registered_names(conversion_mapping: str) -> frozenset[str]:
    """Every model type and class name with an entry, from the text of conversion_mapping.py.

    Reads the keys of the table of aliases, and the constant keys that the builder function stores:
    those of a literal, `mapping["x"] = ...` and `mapping["x"] += ...`.  Raises ValueError when the
    text has no such table and function.
    """
    aliases, builders = [], []
    for node in ast.parse(conversion_mapping).body:
        if isinstance(node, ast.Assign) and _find_targets(node) == {CONVERSIONS_ALIASES}:
            aliases.append(node.value)
        if isinstance(node, ast.FunctionDef) and node.name == CONVERSIONS_BUILDER:
            builders.append(node)
    # A release that keeps them otherwise must not look as if it had none.
    if len(aliases) != 1 or len(builders) != 1:
        raise ValueError(
            f"no {CONVERSIONS_ALIASES} and {CONVERSIONS_BUILDER}() in the text; "
            "transformers keeps its conversions elsewhere"
        )
    return _find_keys(aliases[0]) | _find_stored_keys(builders[0])


@functools.lru_cache(maxsize=64)  # The variants of a model have one configuration.
def read_model_types(configuration: str) -> frozenset[str]:
    """The model types that the classes of a configuration module declare, from its text."""
    found: set[str] = set()
    for owner in statements_within(ast.parse(configuration)):
        if isinstance(owner, ast.ClassDef):
            for node in owner.body:
                found.update(_find_model_type(node))
    return frozenset(found)


def _find_model_type(node: ast.stmt) -> Iterator[str]:
    """`model_type = "mixtral"`, with or without an annotation."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return
    match node.value:
        case ast.Constant(value=str(name)) if "model_type" in _find_targets(node):
            yield name


def select_registered(registered: Collection[str], sources: Mapping[str, str]) -> dict[str, str]:
    """The part of `sources` that has an entry, sorted.

    `sources` maps each model type and class name of a flat module to the one in transformers.  They
    differ where a variant has a `model_type` or class names of its own.
    """
    # Sorted, so that the output does not depend on the order of the classes.
    return {name: source for name, source in sorted(sources.items()) if source in registered}


def render_registrations(sources: Mapping[str, str]) -> str:
    """The statements for what `select_registered` gives; they need `IMPORT`."""
    if not sources:
        return ""
    calls = [
        f'{_REGISTER}("{name}", {_GET}("{source}"), overwrite=True)\n'
        for name, source in sorted(sources.items())
    ]
    return "".join([_COMMENT, *calls])


def _find_stored_keys(builder: ast.FunctionDef) -> frozenset[str]:
    """The constant keys under which `builder` stores into the name that it returns."""
    returned = set()
    for statement in builder.body:
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name):
            returned.add(statement.value.id)
    keys: set[str] = set()
    for node in statements_within(builder):
        match node:
            # mapping = {"x": ...}
            case ast.Assign(targets=[ast.Name(id=table)], value=ast.Dict() as literal):
                if table in returned:
                    keys |= _find_keys(literal)
            # mapping["x"] = ..., mapping["x"] += ...
            case (
                ast.Assign(
                    targets=[
                        ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(key)))
                    ]
                )
                | ast.AugAssign(
                    target=ast.Subscript(
                        value=ast.Name(id=table), slice=ast.Constant(value=str(key))
                    )
                )
            ):
                if table in returned:
                    keys.add(key)
    return frozenset(keys)


def _find_keys(table: ast.expr) -> frozenset[str]:
    """The string keys of a dictionary that is written out."""
    if not isinstance(table, ast.Dict):
        return frozenset()
    found: set[str] = set()
    for key in table.keys:
        # `**other` has no key, and a computed one is not known.
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
    return frozenset(found)


def _find_targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    """The names that an assignment binds."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    return {target.id for target in targets if isinstance(target, ast.Name)}
