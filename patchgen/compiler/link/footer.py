"""Make transformers treat the classes of a flat file as its own.

transformers takes a class outside its package for custom code.  It then converts none of its
checkpoints, and does not initialise modules without parameters of their own: a flat GPT-2 lost the
scaled initialisation of its projections.  A flat file says what its classes are:

    class GPT2PreTrainedModel(PreTrainedModel):
        @classmethod
        def is_custom_code(cls):
            return False

Initialisation.  transformers then initialises every module, also after it has loaded weights.  Its
functions, and those of `torch.nn.init`, leave a loaded parameter alone.  What a modular file writes
in another way would overwrite it, and is refused.

Conversions.  transformers rewrites many checkpoints while it loads and saves them: for Mixtral it
merges the matrices of all experts.  It looks for an entry first by class name, then by
`config.model_type`.  A flat file registers what has another name than in transformers, and all of
it where a class may be custom code:

    register_checkpoint_conversion_mapping(
        "my_mixtral", get_checkpoint_conversion_mapping("mixtral"), overwrite=True
    )

The same names and no others: `MixtralModel` with the entry of `mixtral` would be converted twice.
Registration is by name for the whole process; with `overwrite`, the statement may run many times.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from patchgen.compiler.link.flatblock import Builder, Dependency, FlatBlock, list_bases
from patchgen.compiler.link.models import map_model_types
from patchgen.compiler.plan.model import RewrittenBlock
from patchgen.facts.modules import (
    CONVERSIONS,
    CONVERSIONS_ALIASES,
    CONVERSIONS_BUILDER,
    MODELING_UTILS,
    MODELS,
)
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import parse_class, parse_once, statements_within, walk

_GET = "get_checkpoint_conversion_mapping"
_REGISTER = "register_checkpoint_conversion_mapping"
IMPORT = f"from transformers.conversion_mapping import {_GET}, {_REGISTER}"
_COMMENT = "# transformers converts no checkpoint of a class outside its package unless asked to.\n"

_IS_CUSTOM_CODE = """@classmethod
def is_custom_code(cls):
    # Else transformers neither converts checkpoints nor initializes modules without parameters.
    return False"""

_PRETRAINED = re.compile(r"PreTrained(?:Model|AudioTokenizerBase)$")
# What gives a tensor of a module itself, and what gives a new tensor over the same memory.
_ITSELF = {"getattr", "get_parameter", "parameters", "named_parameters", "zip", "enumerate"}
_VIEWS = {"data", "T", "mT", "detach", "chunk", "split", "unbind", "view", "reshape", "narrow"}
_VIEWS |= {"flatten", "squeeze", "unsqueeze", "transpose", "permute", "select", "t", "expand"}


def write_is_custom_code(blocks: tuple[FlatBlock, ...], builder: Builder) -> tuple[FlatBlock, ...]:
    """Say in the subclasses of `PreTrainedModel` that they are no custom code.

    Raises PatchgenError PG414 where the modular file would overwrite loaded weights.
    """
    env = builder.bindings.env
    # Older releases make no such difference.
    if env.path(MODELING_UTILS) is None or not env.spells(MODELING_UTILS, "def is_custom_code"):
        return blocks
    _refuse_overwriting(blocks)
    written = []
    models = list_pretrained(blocks)
    for block in blocks:
        if block in models and "is_custom_code" not in block.text:
            block = replace(block, text=add_method(block.text, _IS_CUSTOM_CODE))
        written.append(block)
    return tuple(written)


def add_method(text: str, method: str) -> str:
    """Put `method` before the other methods of a class; it replaces a last `pass` or `...`."""
    owner = parse_class(text)
    lines = text.split("\n")
    methods = [node for node in owner.body if isinstance(node, ast.FunctionDef)]
    first = owner.body[0]
    width = first.col_offset if first.lineno > owner.lineno else 4
    new = textwrap.indent(method, " " * width).split("\n")
    if methods:
        end = first_line(methods[0]) - 1
        while lines[end - 1].strip().startswith("#"):
            end -= 1
        return "\n".join([*lines[:end], *new, "", *lines[end:]])
    last = owner.body[-1]
    end = last.end_lineno or last.lineno
    below = lines[end:]
    if ast.unparse(last) not in ("pass", "..."):
        return "\n".join([*lines[:end], "", *new, *below])
    above = lines[: last.lineno]
    # `class A(B): ...` on one line keeps what stands before the dots.
    line = above.pop().encode()
    before = line[: last.col_offset].decode().rstrip()
    if before:
        above.append(before)
    return "\n".join([*above, *new, *below])


def list_pretrained(blocks: Collection[FlatBlock]) -> list[FlatBlock]:
    """What the models of a file have as a base: classes over a model that the file imports."""
    own = {block.name for block in blocks}

    def is_imported(base: Dependency) -> bool:
        return base.name not in own and _PRETRAINED.search(base.symbol.name) is not None

    return [block for block in blocks if list_bases(block, is_imported)]


def _refuse_overwriting(blocks: tuple[FlatBlock, ...]) -> None:
    """Raise PG414 where `_init_weights`, or what it calls, writes a tensor that may be loaded.

    What transformers' own code writes is as right or wrong as it is there.
    """
    reached = {"_init_weights"}
    functions = []
    for block in blocks:
        if _find_users(block) or "def _init_weights" in block.text:
            for node in walk(parse_once(block.text)):
                if isinstance(node, ast.FunctionDef):
                    functions.append((block, node))
    size = 0
    while size < len(reached):
        size = len(reached)
        for _, function in functions:
            if function.name in reached:
                for node in walk(function):
                    if isinstance(node, ast.Call):
                        reached.add(ast.unparse(node.func).rpartition(".")[2])
    for block, function in functions:
        if function.name in reached and "_is_hf_initialized" not in ast.unparse(function):
            for node in _find_writes(function, block):
                _raise_at(ast.unparse(node), block)


def _find_users(block: FlatBlock) -> list[RewrittenBlock]:
    """The blocks of modular files and parts that `block` was made from."""
    return [each for each in block.rewritten if not each.symbol.module.startswith("transformers.")]


def _raise_at(code: str, block: FlatBlock) -> None:
    """Raise PG414 where a modular file or a part has `code`."""
    for rewritten in _find_users(block):
        for node in walk(parse_once(rewritten.text)):
            if isinstance(node, ast.expr | ast.stmt) and ast.unparse(node) == code:
                at = rewritten.at(node.lineno, node.col_offset)
                what = f"`{code}` writes over weights that were loaded"
                hint = (
                    "initialise the parameter itself by a function of torch.nn.init, as in "
                    "`nn.init.normal_(module.weight)`, or ask for "
                    '`getattr(module.weight, "_is_hf_initialized", False)` first'
                )
                raise PatchgenError("PG414", at, what, hint)


def _find_writes(function: ast.FunctionDef, block: FlatBlock) -> Iterator[ast.AST]:
    """The code in `function` that changes a tensor without a look at whether it was loaded."""
    symbols = {dependency.name: dependency.symbol for dependency in block.dependencies}
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr=name)], value=value):
                is_parameter = re.match(r"(\w+\.)*Parameter\(", ast.unparse(value))
                if (name == "data" or is_parameter) and _is_view(owner, function) is not None:
                    yield node
            case ast.AugAssign(target=ast.Attribute(value=owner)):
                if _is_view(owner, function) is not None:
                    yield node
            case (
                ast.Assign(targets=[ast.Subscript() as part])
                | ast.AugAssign(target=ast.Subscript() as part)
            ):
                if _is_view(part, function):
                    yield node
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=arguments):
                if name.endswith("_") and not name.endswith(("__", "requires_grad_")):
                    if ast.unparse(owner).rpartition(".")[2] not in ("init", "initialization"):
                        if _is_view(owner, function) is not None:
                            yield node
                    elif arguments and _is_view(arguments[0], function):
                        yield node
            # `from torch.nn.init import normal_` is not what transformers makes careful.
            case ast.Call(func=ast.Name(id=name), args=[tensor, *_]) if name in symbols:
                home = symbols[name].module
                if home == "torch.nn.init" or (
                    "transformers.init" in home and _is_view(tensor, function)
                ):
                    yield node


def _is_view(value: ast.expr, function: ast.FunctionDef, seen: str = "") -> bool | None:
    """Whether this is a view of a parameter; False for a parameter itself, None for a new tensor.

    A view has the memory of the parameter, and not the attribute that says whether it was loaded.
    """
    match value:
        case ast.Subscript(value=owner):
            return _is_view(owner, function, seen) is not None or None
        case ast.Attribute(value=owner, attr=name) if name in _VIEWS:
            return _is_view(owner, function, seen) is not None or None
        case ast.Attribute():
            return False
        case ast.Call(func=called, args=arguments):
            name = ast.unparse(called).rpartition(".")[2]
            if name in _ITSELF:
                return False
            owners = [called.value] if isinstance(called, ast.Attribute) else []
            kinds = [_is_view(owner, function, seen) for owner in (*owners, *arguments)]
            return name in _VIEWS and any(kind is not None for kind in kinds) or None
        case ast.Name(id=name) if name != seen:
            kinds = []
            for node in walk(function):
                match node:
                    case (
                        ast.Assign(targets=[target], value=ast.expr() as source)
                        | ast.AnnAssign(target=target, value=ast.expr() as source)
                        | ast.NamedExpr(target=target, value=source)
                        | ast.For(target=target, iter=source)
                        | ast.comprehension(target=target, iter=source)
                    ):
                        # `name[0] = source` binds nothing.
                        if name in bound_names([target]):
                            kinds.append(_is_view(source, function, name))
                    # A parameter of the function is what it was called with.
                    case ast.arg(arg=parameter) if parameter == name:
                        kinds.append(False)
            return True if True in kinds else False if False in kinds else None
    return None


def render_conversions(blocks: tuple[FlatBlock, ...], builder: Builder) -> str:
    """The statements that register the checkpoint conversions of the classes in `blocks`.

    "" where this release of transformers has no conversions.  Raises PatchgenError PG405 when
    transformers keeps them in an unknown form.
    """
    env = builder.bindings.env
    if env.path(CONVERSIONS) is None:
        return ""
    try:
        registered = read_registered_names(env.source(CONVERSIONS, Location(CONVERSIONS)).text)
    except ValueError as error:
        at = Location(builder.plan.modular.source.path)
        hint = "use a release of transformers that patchgen supports"
        raise PatchgenError("PG405", at, str(error), hint) from error
    # transformers looks the conversion of a parent up by the name of the class that stands for it.
    classes = [block for block in blocks if block.kind == "class" and not block.aside]
    # Both kinds of names share one table in transformers.
    sources = map_model_types(builder) | {block.name: block.origin.name for block in classes}
    # Older releases go by the name of the module.
    if env.spells(CONVERSIONS, "is_custom_code") and not _may_be_custom_code(blocks):
        sources = {name: source for name, source in sources.items() if name != source}
    return render_registrations(registered, sources)


def _may_be_custom_code(blocks: tuple[FlatBlock, ...]) -> bool:
    """Whether the user decides about a class, or one has a base from where models may be."""
    defined = {block.name for block in blocks}

    def is_foreign(base: Dependency) -> bool:
        is_known = re.match(rf"(?!{MODELS}\.)(torch|transformers)\b", base.symbol.module)
        return base.name not in defined and not is_known

    for block in blocks:
        if "is_custom_code" in block.text or list_bases(block, is_foreign):
            return True
    return False


def render_registrations(registered: Collection[str], sources: Mapping[str, str]) -> str:
    """The statements for the names in `sources` that have an entry; they need `IMPORT`.

    `sources` maps each model type and class name of a flat module to the one in transformers.
    """
    calls = ""
    # Sorted, so that the output does not depend on the order of the classes.
    for name, source in sorted(sources.items()):
        if source in registered:
            calls += f'{_REGISTER}("{name}", {_GET}("{source}"), overwrite=True)\n'
    return f"{_COMMENT}{calls}" if calls else ""


# Each variant of a run asks about the same file, the longest one that is read.
@functools.lru_cache(maxsize=2)
def read_registered_names(conversion_mapping: str) -> frozenset[str]:
    """Every model type and class name with an entry, from the text of conversion_mapping.py.

    Reads the keys of the table of aliases, and the constant keys that the builder function stores
    into what it returns.  Raises ValueError when the text has no such table and function.
    """
    tables = []
    builders = []
    for node in ast.parse(conversion_mapping).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name == CONVERSIONS_ALIASES:
                    tables.append(value)
            case ast.FunctionDef(name=name) if name == CONVERSIONS_BUILDER:
                builders.append(node)
    # A release that keeps them otherwise must not look as if it had none.
    if len(tables) != 1 or len(builders) != 1:
        raise ValueError(
            f"no {CONVERSIONS_ALIASES} and {CONVERSIONS_BUILDER}() in the text; "
            "transformers keeps its conversions elsewhere"
        )
    return frozenset([*_find_keys(tables[0]), *_find_stored_keys(builders[0])])


def _find_stored_keys(builder: ast.FunctionDef) -> Iterator[str]:
    """The constant keys under which `builder` stores into the name that it returns."""
    returned = {
        ast.unparse(node.value)
        for node in builder.body
        if isinstance(node, ast.Return) and node.value is not None
    }
    for node in statements_within(builder):
        match node:
            case ast.Assign(targets=[ast.Name(id=table)], value=literal) if table in returned:
                yield from _find_keys(literal)
            case (
                ast.Assign(targets=[ast.Subscript(value=stored, slice=ast.Constant(str(key)))])
                | ast.AugAssign(target=ast.Subscript(value=stored, slice=ast.Constant(str(key))))
            ):
                if ast.unparse(stored) in returned:
                    yield key


def _find_keys(table: ast.expr) -> Iterator[str]:
    """The string keys of a dictionary that is written out; `**other` has none."""
    if not isinstance(table, ast.Dict):
        return
    for key in table.keys:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value
