"""Which checkpoint conversions a flat modeling module has to register again, and the text that does it.

transformers rewrites many checkpoints while it loads them and back while it saves them (Mixtral: the matrices of each
expert, merged into one parameter).  The rewriting is looked up in `transformers.conversion_mapping`, first by class
name, then by `config.model_type`, but never for *custom code*, a class whose module is not inside transformers, unless
one of the two names was registered by `register_checkpoint_conversion_mapping`.  So a flat Mixtral would load
transformers' own checkpoint with every expert reported missing and drawn at random, and save keys that nothing reads.

A flat module therefore registers what is already there, name by name:

- the same names and no others.  A conversion found under a class name is repeated for each nested model, one found
  under a model type applies once from the root; to register `MixtralModel` with the entry of `mixtral` would convert
  twice, in transformers' own class too.
- a copy of the entry in force (`get_checkpoint_conversion_mapping` copies).  So transformers' own classes convert as
  before, the statement may run any number of times, and an entry that the user registered stays.
- `overwrite=True`, without which an existing name is a ValueError.

What it cannot avoid: registration is by name for the whole process, so other custom code with the same model type or
class name is converted from then on too.

In: the text of transformers/conversion_mapping.py.  Out: names, and statements as text.  Nothing is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

_GET = "get_checkpoint_conversion_mapping"
_REGISTER = "register_checkpoint_conversion_mapping"
IMPORT = f"from transformers.conversion_mapping import {_GET}, {_REGISTER}"

_ALIASES = "_MODEL_TO_CONVERSION_PATTERN"
_BUILDER = "_build_checkpoint_conversion_mapping"


def registered_names(conversion_mapping: str) -> frozenset[str]:
    """Every model type and class name with an entry, from the text of transformers/conversion_mapping.py.

    Read from the keys of the table of aliases, and from what the builder function stores under a constant key: a
    literal, `mapping["x"] = ...`, `mapping["x"] += ...`.  ValueError when the text has no such table and function.
    """
    body = ast.parse(conversion_mapping).body
    aliases = [
        _keys(node.value)
        for node in body
        if isinstance(node, ast.Assign) and _targets(node) == {_ALIASES}
    ]
    builders = [
        node for node in body if isinstance(node, ast.FunctionDef) and node.name == _BUILDER
    ]
    if len(aliases) != 1 or len(builders) != 1:
        raise ValueError(
            f"no {_ALIASES} and {_BUILDER}() in the text; transformers keeps its conversions elsewhere"
        )
    return aliases[0] | _stored(builders[0])


def model_types(configuration: str) -> frozenset[str]:
    """The model types that the classes of a configuration module declare, from its text."""
    return frozenset(
        node.value.value
        for owner in ast.walk(ast.parse(configuration))
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and "model_type" in _targets(node)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def to_register(registered: Collection[str], sources: Mapping[str, str]) -> dict[str, str]:
    """The part of `sources` that has an entry.

    `sources` gives, for each model type and class name of a flat module, the one that it has in transformers: another
    where a variant brings a `model_type` or class names of its own.
    """
    return {name: source for name, source in sorted(sources.items()) if source in registered}


def registration(sources: Mapping[str, str]) -> str:
    """The statements with which a flat module ends, for what `to_register` gives; they need `IMPORT`."""
    calls = "".join(
        f'{_REGISTER}("{name}", {_GET}("{source}"), overwrite=True)\n'
        for name, source in sorted(sources.items())
    )
    return (
        calls
        and f"# transformers converts no checkpoint of a class outside its package unless asked to.\n{calls}"
    )


def _stored(builder: ast.FunctionDef) -> frozenset[str]:
    """The constant keys under which `builder` stores into the name that it returns."""
    returned = {
        node.value.id
        for node in builder.body
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
    }
    keys: set[str] = set()
    for node in ast.walk(builder):
        match node:
            case ast.Assign(targets=[ast.Name(id=table)], value=ast.Dict() as literal) if (
                table in returned
            ):
                keys |= _keys(literal)
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
            ) if table in returned:
                keys.add(key)
    return frozenset(keys)


def _keys(table: ast.expr) -> frozenset[str]:
    keys = table.keys if isinstance(table, ast.Dict) else ()
    return frozenset(
        key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
    )


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}
