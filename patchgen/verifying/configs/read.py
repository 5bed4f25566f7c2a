"""Which other configurations and heads a variant is run with.

Those of published checkpoints, what its parts read, and then whatever else its changed lines or
those of its parent read, each with values under which it may compute something else:

    if config.tie and self.share:          tie: not as by default, share: not as by default
    if config.kind == "sum":               kind: "sum"
    bias=config.attention_bias             attention_bias: not as by default

Nothing is imported.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgen import disk
from patchgen.author.declare.registry import PARTS
from patchgen.facts.published import PUBLISHED, YARN, Setting
from patchgen.facts.sizes import MORE_SIZES, SIZES
from patchgen.syntax.trees import names_within
from patchgen.verifying.mutation.lines import read_flat_text, source_of
from patchgen.verifying.variants import Variant, find_touched_lines, find_towers

Definition = ast.ClassDef | ast.FunctionDef
# Shorter ones the usual texts are longer than; longer ones take too long.
LENGTHS = range(13, 2049)
MOST_LENGTHS = 3
SMALL = 3  # a value for a number of which nothing is known
TINY = 1e-3
ACTIVATION = re.compile(r"act(ivation)?(_fn|_function)?$|_act_")
ACTIVATIONS = ("relu", "silu", "gelu_python")
# What some names may be, of which no default says it.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "rope_parameters": (
        {"rope_type": "default", "rope_theta": 500.0},
        {**YARN, "mscale_all_dim": 0.7},
    ),
    "tie_word_embeddings": (True, False),
    "num_experts_per_tok": (1,),
    "num_key_value_heads": (4, 1),
    "head_dim": (16,),
    "sliding_window": (5,),
    "time_step_limit": ((0.3, 0.8),),
    "pad_token_id": (1,),  # zero is no offset of positions
}
PADDING = re.compile(r"\bpadding_idx\b")  # the token of padding, where a module is given it
DECODING = ("is_decoder", "add_cross_attention")  # the latter needs the former
# A number of heads that is no power of two.
OTHER_SIZES = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3}
FEW = 8  # of which one more is still tiny
TIES = "_tied_weights_keys"  # a class that says which weights are tied reads whether they are


@dataclass(frozen=True, slots=True)
class Read:
    classes: tuple[str, ...]  # that contain a changed line
    values: Mapping[str, tuple[Any, ...]]  # by the name in the configuration
    lengths: tuple[int, ...] = ()  # integers in changed functions that a text may be longer than
    readers: Mapping[str, frozenset[str]] = field(default_factory=dict)  # what reads each name
    functions: tuple[str, ...] = ()  # at the top that contain a changed line

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.classes, *self.functions))


def find_reads(
    text: str,
    lines: frozenset[int],
    defaults: Mapping[str, Any],
    parent: str = "",
    replaced: frozenset[int] = frozenset(),
) -> Read:
    """What `lines` of `text` read, and `replaced` lines of `parent`."""
    module = ast.parse(text)
    changed = [node for node in module.body if _holds(node, lines)]
    theirs = [node for node in ast.parse(parent).body if _holds(node, replaced)]
    found: dict[str, list[Any]] = {}
    readers: dict[str, set[str]] = {}
    for reader, name, others in _find_readers((*changed, *theirs), module):
        values = found.setdefault(name, [])
        readers.setdefault(name, set()).add(reader)
        default = defaults.get(name.rpartition(".")[2], others.default)
        values.extend(v for v in _values(name, default, others) if v not in values)
    lengths: set[int] = set()
    for node in changed:
        for function in ast.walk(node):
            if isinstance(function, ast.FunctionDef) and _holds(function, lines):
                lengths.update(n for n in _numbers_in(function) if n in LENGTHS)
    return Read(
        tuple(node.name for node in changed if isinstance(node, ast.ClassDef)),
        {name: tuple(values) for name, values in found.items() if values},
        tuple(sorted(lengths))[:MOST_LENGTHS],
        {name: frozenset(names) for name, names in readers.items()},
        tuple(node.name for node in changed if isinstance(node, ast.FunctionDef)),
    )


def _find_readers(
    changed: Sequence[ast.stmt], module: ast.Module
) -> Iterator[tuple[str, str, _Others]]:
    """What reads each name: a changed definition, or a class that gives it to a changed function.

    `scale(config.rope_parameters)`, `scan(x, limit=self.limit)`
    """
    functions = {node.name for node in changed if isinstance(node, ast.FunctionDef)}
    for node in map(_Aliases().visit, changed):
        for name, others in _reads(node):
            yield node.name, name, others
        if PADDING.search(ast.unparse(node)):
            yield node.name, "pad_token_id", _Others()
    for owner in module.body:
        if not functions or not isinstance(owner, ast.ClassDef):
            continue
        flags = _flags_of(owner)
        for call in ast.walk(owner):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in functions:
                continue
            for each in ast.walk(call):
                config = _of_config(each) or flags.get(_bound(each))
                if config is not None:
                    yield owner.name, config[0], _Others(config[1], is_tested=False)


def _numbers_in(function: ast.FunctionDef) -> set[int]:
    constants = (node.value for node in ast.walk(function) if isinstance(node, ast.Constant))
    return {value for value in constants if type(value) is int}


def find_defaults(text: str) -> dict[str, Any]:
    defaults = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for statement in node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)):
                    defaults[name] = value
    return defaults


def _holds(node: ast.stmt, lines: frozenset[int]) -> bool:
    if not isinstance(node, Definition):
        return False
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return any(first <= line <= (node.end_lineno or first) for line in lines)


@dataclass(frozen=True, slots=True)
class _Others:
    """What the code that reads a name says about its values."""

    default: Any = None  # the third argument of `getattr`
    compared: tuple[Any, ...] = ()  # constants that the code compares it with
    is_tested: bool = True  # a branch depends on it
    has_layers: bool = False  # it says which layers are of a kind: `layer_idx in config.name`
    values: tuple[Any, ...] = ()  # what it may be, if the code says that


Flags = Mapping[str, tuple[str, Any]]


def _flags_of(node: ast.AST) -> dict[str, tuple[str, Any]]:
    """Attributes and local names that are one value of the configuration."""
    flags = {}
    for each in ast.walk(node):
        if not isinstance(each, ast.Assign):
            continue
        own = _bound(each.targets[0])
        value = each.value.body if isinstance(each.value, ast.IfExp) else each.value
        config = _of_config(value)
        if own and config is not None:
            flags[own] = config
    return flags


def _reads(node: ast.stmt, flags: Flags | None = None) -> Iterator[tuple[str, _Others]]:
    """Names of the configuration that `node` reads: first in tests, by its own flags too."""
    every = list(ast.walk(node))
    tests: list[ast.expr] = []
    flags = _flags_of(node) if flags is None else flags
    for each in every:
        if isinstance(each, ast.If | ast.IfExp | ast.While):
            tests.append(each.test)
        elif isinstance(each, ast.BoolOp | ast.Compare):
            tests.append(each)
    for test in tests:
        inside = list(ast.walk(test))
        constants = (each.value for each in inside if isinstance(each, ast.Constant))
        words = tuple(value for value in constants if isinstance(value, str))
        match test:
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[config_list]):
                if (config := _of_config(config_list)) is not None:
                    yield config[0], _Others(config[1], has_layers=True)
        for each in inside:
            if (config := _of_config(each) or flags.get(_bound(each))) is not None:
                yield config[0], _Others(config[1], words)
    for each in every:
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
    match node:
        case ast.Attribute(value=owner, attr=name) if _is_config(owner):
            default = None
        case ast.Call(
            func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *rest]
        ) if _is_config(owner):
            default = rest[0].value if rest and isinstance(rest[0], ast.Constant) else None
        case _:
            return None
    if name.endswith("_config"):
        return None  # a configuration inside it, which is no value
    # "ffn_config." of `self.config.ffn_config`.
    _, _, inner = ast.unparse(owner).removeprefix("self.").partition(".")
    return f"{inner}.{name}" if inner else name, default


def _is_config(node: ast.expr) -> bool:
    return re.fullmatch(r"(self\.)?config(\.\w+_config)?", ast.unparse(node)) is not None


def _bound(node: ast.AST) -> str:
    """`.name` for `self.name`, `name` for a name; "" for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return f".{name}"
    return ""


def _values(name: str, default: Any, others: _Others) -> Iterator[Any]:
    if others.has_layers:
        yield [1]
    elif name in VALUES or others.values:
        yield from others.values or VALUES[name]
    elif isinstance(default, bool):
        yield not default
    elif isinstance(default, str):
        named = ACTIVATIONS if ACTIVATION.search(name) else ()
        yield from (value for value in (*others.compared, *named) if value != default)
    elif isinstance(default, float):  # half an epsilon would not show
        yield 0.5 if 0 < default < TINY else default / 2 or 0.25
    elif isinstance(default, int):
        # Where no branch depends on it, it is a size, and none of a size is an error.
        if others.is_tested:
            yield from (default + 1, SMALL if default < 1 else 0)
        elif default <= FEW:
            yield default + 1
    elif others.is_tested:
        yield from (SMALL, SMALL / 2, True, 0)  # an integer is no float, and 0 is not None


# Names that other cases change, or that no case can: how the model is called, and its purpose.
ELSEWHERE = re.compile(
    r"^_|^(output_\w+|return_dict|use_cache|is_encoder_decoder|is_decoder"
    r"|problem_type|num_labels|model_type|dtype)$"
    r"|drop|_types$|(?<!pad)_token_id$|_pdrop$|^init"
)


def find_settings(variant: Variant) -> tuple[Setting, ...]:
    """All known settings, those of checkpoints first, and what changed lines read beside them."""
    text = text_of(variant)
    known = _find_known(variant, text)
    met = set[str]()
    for setting in known:
        met.update(setting.changes)
    drawn = []
    for name, values in read_of(variant).values.items():
        if name not in met and _is_drawn(name):
            drawn += [_draw(name, value) for value in values]
    together: dict[str, Any] = {}
    for each in reversed(drawn):
        together |= each.changes
    if len(together) > 1:  # one may do nothing without another
        drawn.append(Setting("all of these", together, drawn=True))
    alone: dict[str, Any] = {}
    for each in known:
        if len(each.changes) > 1:  # one may hide another
            alone |= each.changes
    drawn += [_draw(name, value) for name, value in alone.items() if name not in DECODING]
    has_inner = any("." in name for name in read_of(variant).values)
    if text and not has_inner:  # sizes inside have to fit
        drawn.append(Setting("other sizes", OTHER_SIZES, drawn=True))
    return (*known, *drawn)


def _find_known(variant: Variant, text: str) -> list[Setting]:
    """Those of published checkpoints, and of the parts that are named in the output's text."""
    family = variant.parent.split(".")[-2] if "." in variant.parent else variant.parent
    known = [*PUBLISHED.get(family, ())]
    for part in PARTS.values():
        for name, settings in part.settings.items():
            if re.search(rf"\b{name}\b", text):
                known += settings
    return known


def _is_drawn(name: str) -> bool:
    last = name.rpartition(".")[2]
    is_size = (last in SIZES or last in MORE_SIZES) and last not in VALUES
    return not (is_size or ELSEWHERE.search(name))


def _draw(name: str, value: Any) -> Setting:
    return Setting(f"{name}={value!r}", {name: value}, drawn=True)


def text_of(variant: Variant) -> str:
    """The text of its output; nothing where there is none."""
    return disk.text_of(variant.path) if variant.path.is_file() else ""


@functools.cache
def changed_heads(variant: Variant) -> tuple[str, ...]:
    """Heads that are changed, use a changed class that is no whole model, or alone reach one."""
    changed = read_of(variant).names
    uses = _uses_of(variant)
    inner = {name for name in changed if not name.endswith("Model")}
    chosen = {find_head_of(variant, name) for name in changed}
    for head in variant.heads:
        used = uses.get(head, set())
        if head in changed or inner & used:
            chosen.add(head)
    return tuple(head for head in _heads_of(variant) if head in chosen)


def _heads_of(variant: Variant) -> tuple[str, ...]:
    """Its heads, and what is public besides: towers."""
    return (*variant.heads, *find_towers(text_of(variant)))


def find_head_of(variant: Variant, name: str) -> str:
    """The first head or tower that is made of class `name`; the main head, if none is."""
    uses = _uses_of(variant)
    heads = _heads_of(variant)
    return next((head for head in heads if name in _reached_from(head, uses)), heads[0])


def _reached_from(head: str, uses: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    left = [head]
    while left:
        name = left.pop()
        if name in reached:
            continue
        reached.add(name)
        if not name.endswith("PreTrainedModel"):  # which names all that it initialises
            left.extend(uses.get(name, ()))
    return reached


@functools.cache
def _uses_of(variant: Variant) -> dict[str, set[str]]:
    """The names in each class and function of its output."""
    nodes = (node for node in ast.parse(text_of(variant)).body if isinstance(node, Definition))
    return {node.name: {each.id for each in names_within(node)} for node in nodes}


# --- settings without which a class is never made


@functools.cache
def find_guards(variant: Variant) -> tuple[tuple[str, Setting], ...]:
    """Settings under which a changed class is made, with the class.

    `self.mlp = SparseMLP(config) if layer_idx >= config.first_dense else MLP(config)`
    """
    changed = read_of(variant).names
    uses = _uses_of(variant)
    defaults = defaults_of(variant)
    found: dict[tuple[str, str], tuple[str, Setting]] = {}
    if not changed:
        return ()
    for node in ast.parse(text_of(variant)).body:
        node = _Aliases().visit(node)
        flags = _flags_of(node)
        for test, branch in _branches(node):
            reached = set[str]()
            for each in ast.walk(branch):
                if isinstance(each, ast.Name) and each.id in uses:
                    reached |= _reached_from(each.id, uses)
            settings = [_guard(*read) for read in _values_in(test, defaults, flags)]
            for made in sorted(reached & changed):
                for setting in settings:
                    found.setdefault((made, setting.name), (made, setting))
    return tuple(found.values())


def _branches(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Each test in a definition, and what runs under it."""
    for each in ast.walk(node):
        if isinstance(each, ast.If):
            for statement in (*each.body, *each.orelse):
                yield each.test, statement
        elif isinstance(each, ast.IfExp):
            yield each.test, each.body
            yield each.test, each.orelse


def _guard(name: str, value: Any) -> Setting:
    """A decoder alone attends to an encoder."""
    if name in DECODING:
        return Setting("attends to an encoder", dict.fromkeys(DECODING, True), drawn=True)
    return _draw(name, value)


def _values_in(
    test: ast.expr, defaults: Mapping[str, Any], flags: Flags
) -> Iterator[tuple[str, Any]]:
    """What a test reads of the configuration, with other values for each."""
    for each in ast.walk(test):
        match each:
            case ast.Compare(
                left=ast.Subscript(value=listed), comparators=[ast.Constant(value=str(word))]
            ) if (config := _of_config(listed)) is not None:
                yield config[0], [word] * SIZES["num_hidden_layers"]
    holder = ast.If(test=test, body=[], orelse=[])
    for name, others in _reads(holder, flags):
        default = defaults.get(name.rpartition(".")[2], others.default)
        for value in _values(name, default, others):
            yield name, value


def head_for(variant: Variant, setting: Setting) -> str:
    """The head that reads a setting if no other class does, or the main one."""
    readers = read_of(variant).readers
    heads: list[str] = []
    for name in setting.changes:
        heads.extend(readers.get(name, ()))
    is_read_elsewhere = not setting.drawn or set(heads) - set(variant.heads)
    return variant.heads[0] if is_read_elsewhere or not heads else min(heads)


@functools.cache
def read_of(variant: Variant) -> Read:
    path = variant.path
    diff = path.with_suffix(".diff")
    if not path.is_file():
        return Read((), {})
    flat = read_flat_text(variant)
    replaced = frozenset[int]()
    lines = flat.changed
    if diff.is_file():
        changes = disk.text_of(diff)
        lines = find_touched_lines(changes)
        replaced = find_touched_lines(changes, of_old=True)
    return find_reads(flat.text, lines, defaults_of(variant), source_of(variant.parent), replaced)


def defaults_of(variant: Variant) -> dict[str, Any]:
    """Of the parent's configurations, and of the variant's own."""
    defaults = find_defaults(source_of(variant.parent.replace(".modeling_", ".configuration_")))
    own = variant.path.with_name(variant.path.name.replace("modeling_", "configuration_"))
    return defaults | (find_defaults(disk.text_of(own)) if own.is_file() else {})
