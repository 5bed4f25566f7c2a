"""Which other configurations and heads a variant is run with.

Those of published checkpoints, what its parts read, and then whatever else its changed lines read.
The text of the output and of its parent, and the diff between them, give the names of the
configuration that a changed class or function reads, each with values under which it may compute
something else:

    if config.tie and self.share:          tie: not as by default, share: not as by default
    if config.kind == "sum":               kind: "sum"
    bias=config.attention_bias             attention_bias: not as by default

What the parent reads counts as well: an option that a change forgets is in its lines alone.
Nothing is imported.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen.facts.published import OF_PARTS, PUBLISHED, Setting
from patchgen.facts.sizes import MORE_SIZES, SIZES
from patchgen.verify.mutation.lines import read_flat_text
from patchgen.verify.variants import Variant, find_touched_lines

Definition = ast.ClassDef | ast.FunctionDef
# Shorter ones the usual texts are longer than; longer ones take too long.
LENGTHS = range(13, 2049)
MOST_LENGTHS = 3
SMALL = 3  # a value for a number of which nothing is known
ACTIVATION = re.compile(r"act(ivation)?(_fn|_function)?$|_act_")
ACTIVATIONS = ("relu", "silu")
# What some names may be, of which no default says it.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "rope_parameters": (
        {"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    ),
    "tie_word_embeddings": (True, False),
    "num_experts_per_tok": (1,),
    "num_key_value_heads": (4, 1),
    "head_dim": (16,),
}
FEW = 8  # of which one more is still tiny
TIES = "_tied_weights_keys"  # a class that says which weights are tied reads whether they are


@dataclass(frozen=True, slots=True)
class Read:
    """What changed lines read."""

    classes: tuple[str, ...]  # that contain a changed line
    values: Mapping[str, tuple[Any, ...]]  # by the name in the configuration
    lengths: tuple[int, ...] = ()  # integers in changed lines that a text may be longer than
    readers: Mapping[str, frozenset[str]] = field(default_factory=dict)  # what reads each name


def find_reads(
    text: str,
    lines: frozenset[int],
    defaults: Mapping[str, Any],
    parent: str = "",
    replaced: frozenset[int] = frozenset(),
) -> Read:
    """`lines` of `text` are changed, for those `replaced` in `parent`.

    `defaults` are the configuration's own.
    """
    changed = [node for node in ast.parse(text).body if _holds(node, lines)]
    theirs = [node for node in ast.parse(parent).body if _holds(node, replaced)]
    found: dict[str, list[Any]] = {}
    readers: dict[str, set[str]] = {}
    for node in map(_Aliases().visit, (*changed, *theirs)):
        for name, others in (*_tested(node), *_read_plainly(node)):
            values = found.setdefault(name, [])
            readers.setdefault(name, set()).add(node.name)
            default = defaults.get(name, others.default)
            values.extend(v for v in _values(name, default, others) if v not in values)
    classes = tuple(node.name for node in changed if isinstance(node, ast.ClassDef))
    lengths = sorted({number for node in changed for number in _numbers(node, lines)})
    values_of = {name: tuple(values) for name, values in found.items() if values}
    read_by = {name: frozenset(names) for name, names in readers.items()}
    return Read(classes, values_of, tuple(lengths)[:MOST_LENGTHS], read_by)


def _numbers(node: ast.stmt, lines: frozenset[int]) -> Iterator[int]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and type(each.value) is int and each.lineno in lines:
            if each.value in LENGTHS:
                yield each.value


def find_defaults(text: str) -> dict[str, Any]:
    """The constant defaults that the classes of a configuration file give their fields."""
    fields = (
        (field.target.id, field.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    )
    return {name: value.value for name, value in fields if isinstance(value, ast.Constant)}


def _holds(node: ast.stmt, lines: frozenset[int]) -> bool:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return isinstance(node, Definition) and any(
        first <= line <= (node.end_lineno or first) for line in lines
    )


@dataclass(frozen=True, slots=True)
class _Others:
    """What the code that reads a name says about its values."""

    default: Any = None  # the third argument of `getattr`
    compared: tuple[Any, ...] = ()  # constants that the code compares it with
    is_tested: bool = True  # a branch depends on it
    values: tuple[Any, ...] = ()  # what it may be, if the code says that


def _tested(node: ast.stmt) -> Iterator[tuple[str, _Others]]:
    """Names of the configuration that a test of `node` reads, its own flags among them."""
    flags = dict(_flags(node))
    for test in _tests(node):
        constants = tuple(each.value for each in ast.walk(test) if isinstance(each, ast.Constant))
        constants = tuple(value for value in constants if isinstance(value, str))
        for each in ast.walk(test):
            config = _of_config(each)
            if config is not None:
                yield config[0], _Others(config[1], constants)
            elif (own := _bound(each)) in flags:
                name, default = flags[own]
                yield name, _Others(default, constants)


def _tests(node: ast.stmt) -> Iterator[ast.expr]:
    for each in ast.walk(node):
        if isinstance(each, ast.If | ast.IfExp | ast.While):
            yield each.test
        elif isinstance(each, ast.BoolOp | ast.Compare):
            yield each


def _flags(node: ast.stmt) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Attributes of a class, and local names, that are one value of its configuration."""
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and (own := _bound(each.targets[0])):
            value = each.value.body if isinstance(each.value, ast.IfExp) else each.value
            config = _of_config(value)
            if config is not None:
                yield own, config


def _read_plainly(node: ast.stmt) -> Iterator[tuple[str, _Others]]:
    """Names of the configuration that `node` reads, in a test or not."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) if name == TIES:
                yield "tie_word_embeddings", _Others(is_tested=False)
            case ast.Call(
                func=ast.Attribute(value=inner, attr="get"),
                args=[ast.Constant(value=key), ast.Constant(value=str())],
            ) if (config := _of_config(inner)) is not None:
                values = tuple({key: name} for name in ACTIVATIONS)
                yield config[0], _Others(is_tested=False, values=values)
        if (config := _of_config(each)) is not None:
            yield config[0], _Others(config[1], is_tested=False)


class _Aliases(ast.NodeTransformer):
    """Writes `config.ffn_config` in place of a local name for it."""

    def __init__(self) -> None:
        self.names: dict[str, ast.expr] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.names = {}
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr=attr) as value):
                if attr.endswith("_config") and _is_config(value):
                    self.names[name] = value
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        is_read = isinstance(node.ctx, ast.Load)
        return self.names.get(node.id, node) if is_read else node


def _of_config(node: ast.AST) -> tuple[str, Any] | None:
    """`config.name`, or `getattr(config, "name", default)`: the name and the default."""
    if isinstance(node, ast.Attribute) and node.attr.endswith("_config"):
        return None  # a configuration inside it, which is no value
    if isinstance(node, ast.Attribute) and _is_config(node.value):
        return f"{_inner(node.value)}{node.attr}", None
    if (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "getattr"
        and _is_config(node.args[0])
    ):
        name, *default = (
            each.value if isinstance(each, ast.Constant) else None for each in node.args[1:]
        )
        if isinstance(name, str) and not name.endswith("_config"):
            return f"{_inner(node.args[0])}{name}", default[0] if default else None
    return None


def _is_config(node: ast.expr) -> bool:
    return re.fullmatch(r"(self\.)?config(\.\w+_config)?", ast.unparse(node)) is not None


def _inner(node: ast.expr) -> str:
    """ "ffn_config." for `self.config.ffn_config`."""
    _, _, inner = ast.unparse(node).removeprefix("self.").partition(".")
    return f"{inner}." if inner else ""


def _bound(node: ast.AST) -> str:
    """`.name` for `self.name`, `name` for a name; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    is_own = (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
    return f".{node.attr}" if is_own and isinstance(node, ast.Attribute) else ""


def _values(name: str, default: Any, others: _Others) -> Iterator[Any]:
    """Values with which the code may compute something else."""
    if name in VALUES or others.values:
        yield from others.values or VALUES[name]
    elif isinstance(default, bool):
        yield not default
    elif isinstance(default, str):
        named = ACTIVATIONS if ACTIVATION.search(name) else ()
        yield from (value for value in (*others.compared, *named) if value != default)
    elif isinstance(default, float):
        yield default / 2 if default else 0.25
    elif isinstance(default, int):
        # Where no branch depends on it, it is a size, and none of a size is an error.
        if others.is_tested:
            yield from (default + 1, 0)
        elif default <= FEW:
            yield default + 1
    elif others.is_tested:
        yield from (SMALL, True)


# Names that other cases change, or that no case can: how the model is called, and its purpose.
ELSEWHERE = re.compile(
    r"^_|^(output_\w+|return_dict|use_cache|is_encoder_decoder|is_decoder"
    r"|problem_type|num_labels|model_type|dtype)$"
    r"|drop|_types$|_token_id$|_pdrop$|^init"
)


def find_settings(variant: Variant) -> tuple[Setting, ...]:
    """All known settings, those of checkpoints first."""
    published = PUBLISHED.get(family_of(variant), ())
    text = text_of(variant)
    read = (name for name in OF_PARTS if re.search(rf"\b{name}\b", text))
    known = (*published, *(setting for name in read for setting in OF_PARTS[name]))
    return (*known, *_drawn(read_of(variant), known))


def changed_heads(variant: Variant) -> tuple[str, ...]:
    """The heads that contain a changed line."""
    changed = read_of(variant).classes
    return tuple(head for head in variant.heads if head in changed)


def head_for(variant: Variant, setting: Setting) -> str:
    """The head that reads a setting if no other class does, or the main one."""
    readers = read_of(variant).readers
    heads = [head for name in setting.changes for head in readers.get(name, ())]
    is_read_elsewhere = not setting.drawn or set(heads) - set(variant.heads)
    return variant.heads[0] if is_read_elsewhere or not heads else min(heads)


def _drawn(read: Read, known: tuple[Setting, ...]) -> Iterator[Setting]:
    """A setting for each value of a name that changed lines test, where no known one has it."""
    met = {name for setting in known for name in setting.changes}
    for name, values in read.values.items():
        is_size = (name in SIZES or name in MORE_SIZES) and name not in VALUES
        if is_size or name in met or ELSEWHERE.search(name):
            continue
        for value in values:
            yield Setting(f"{name}={value!r}", {name: value}, ("left",), drawn=True)


def family_of(variant: Variant) -> str:
    """The parent's folder in transformers."""
    return variant.parent.split(".")[-2] if "." in variant.parent else variant.parent


@functools.cache
def read_of(variant: Variant) -> Read:
    path = _path(variant)
    diff = path.with_suffix(".diff")
    if not path.is_file():
        return Read((), {})
    flat, replaced = read_flat_text(variant), frozenset[int]()
    lines = flat.changed
    if diff.is_file():
        changes = diff.read_text(encoding="utf-8")
        lines, replaced = find_touched_lines(changes), find_touched_lines(changes, of_old=True)
    defaults = find_defaults(_source_of(variant.parent.replace(".modeling_", ".configuration_")))
    own = path.with_name(path.name.replace("modeling_", "configuration_"))
    if own.is_file():
        defaults |= find_defaults(own.read_text(encoding="utf-8"))
    return find_reads(flat.text, lines, defaults, _source_of(variant.parent), replaced)


def _source_of(module: str) -> str:
    """The text of a module of the parent; nothing where there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return ""
    if spec is None or spec.origin is None:
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


def text_of(variant: Variant) -> str:
    """Of the output; nothing where it is not there."""
    path = _path(variant)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _path(variant: Variant) -> Path:
    return Path(variant.home, *variant.module.split(".")).with_suffix(".py")
