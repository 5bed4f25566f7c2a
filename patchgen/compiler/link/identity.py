"""Whether anything in the flat files can tell that a class was merged with its parents.

In: the outputs of a modular file, as they are with these classes merged.  Out: the classes that stay subclasses
instead, with the reason.  Merging takes a class out of the bases of another.  Nobody can tell, unless

- the parent stands in the file as well, because other code names it: then it can be asked for, by `isinstance`, by
  `except`, through a table, and what is stored in it is stored for its subclasses too;
- it is merged into several classes and holds an object that these would share;
- code looks at the classes of an object, or at the names that it has.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.errors import Location, PatchgenError

_CLASSES = re.compile(
    r"\b(?:__mro__|__bases__|__base__|__subclasses__|__orig_bases__|__annotations__|getmro|mro\(\)|get_original_bases"
    r"|classify_class_attrs|getdoc\(|__qualname__|co_qualname)|(?:\.|[\"'])__slots__\b"
)
_OWN_NAMES = re.compile(
    r"(?:\bcls|\bklass|\btype\([^()]*\)|\b__class__)\.__dict__|\bvars\((?:cls|klass|type\(|\w+\.__class__)"
)
_NAMES = re.compile(r"\b(?:dir|getmembers|getmembers_static)\(|\b(?:__dir__|co_name)\b")
_HELPER = re.compile(r"_\w+_of_\w+")
_CACHES = frozenset({"cache", "lru_cache"})


def find_observed_merges(blocks: Sequence[FlatBlock], builder: Builder) -> dict[Symbol, str]:
    """The merged classes among `blocks` that stay subclasses of their parents, and why.

    Raises PatchgenError PG119 for one that cannot, because it edits or removes members.
    """
    plan = builder.naming.plan
    merged = [
        d for block in blocks if (d := plan.declaration(block.pieces[0].symbol)) and d.is_merged
    ]
    found: dict[Symbol, str] = {}
    for declaration in merged:
        why = next(_reasons(declaration, blocks, merged), "")
        if why and not declaration.rewrites:
            found[declaration.symbol] = why
    return found


def _reasons(
    declaration: Declaration, blocks: Sequence[FlatBlock], merged: Sequence[Declaration]
) -> Iterator[str]:
    yield from _asked_for(declaration, blocks)
    yield from _shared(declaration, blocks, merged)
    if declaration.rewrites:
        return
    for block in blocks:
        text = "\n".join(
            line for line in block.text.split("\n") if not line.lstrip().startswith("#")
        )
        seen = _CLASSES.search(text) or _OWN_NAMES.search(text)
        if seen is not None:
            yield f"{block.name or 'a statement'} looks at the classes of an object ({seen.group()})"
        seen = _NAMES.search(text)
        if seen is not None and _has_helpers(declaration, blocks):
            yield f"{block.name or 'a statement'} looks at the names of an object ({seen.group()})"


def _asked_for(declaration: Declaration, blocks: Sequence[FlatBlock]) -> Iterator[str]:
    """The parents that stand in the file as well."""
    carried = {block.pieces[0].symbol: block for block in blocks if block.kind == "class"}
    for parent in declaration.parents:
        if parent not in carried:
            continue
        if not declaration.rewrites:
            yield f"{carried[parent].name} stands in the file as well"
            continue
        for block in blocks:
            at = _question(block, carried[parent].name, parent)
            if at is not None:
                name = declaration.symbol.name
                what = (
                    f"{block.name or 'a statement'} asks for {parent}, which is merged into {name}"
                )
                hint = f"{name} would stay a subclass if it did not edit or remove what it inherits"
                raise PatchgenError("PG119", at, what, hint)


def _question(block: FlatBlock, name: str, symbol: Symbol) -> Location | None:
    """Where a block uses a class otherwise than as a base, as an annotation, or to make an object."""
    if not any(need.name == name and need.symbol == symbol for need in block.needs):
        return None
    tree = ast.parse(block.text)
    harmless = {id(node) for node in _harmless(tree)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Name)
            and node.id == name
            and isinstance(node.ctx, ast.Load)
            and id(node) not in harmless
        ):
            piece = block.pieces[0]
            return (
                piece.at(node.lineno, node.col_offset) if len(block.pieces) == 1 else piece.at(1, 0)
            )
    return None


def _harmless(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(bases=bases):
                yield from bases
            case ast.Call(func=ast.Name() as made):
                yield made
            case ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]):
                annotations = [
                    argument.annotation
                    for argument in ast.walk(node.args)
                    if isinstance(argument, ast.arg)
                ]
                for annotation in (*annotations, node.returns):
                    yield from ast.walk(annotation) if annotation else ()
            case _:
                pass


def _shared(
    declaration: Declaration, blocks: Sequence[FlatBlock], merged: Sequence[Declaration]
) -> Iterator[str]:
    """Parents that are merged into several classes, which would each have objects of their own then."""
    if declaration.rewrites:
        return
    pieces = {piece.symbol: piece for block in blocks for piece in block.pieces}
    for parent in declaration.parents:
        others = [
            d.symbol.name for d in merged if parent in d.parents and d.symbol != declaration.symbol
        ]
        held = _held(pieces[parent]) if others and parent in pieces else None
        if held:
            yield f"{others[0]} has the same {parent.name}.{held}"


def _held(piece: RewrittenBlock) -> str | None:
    """The name of an object that the class body makes."""
    owner = next(node for node in ast.parse(piece.text).body if isinstance(node, ast.ClassDef))
    for node in owner.body:
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if _makes_an_object(value):
                    return ast.unparse(target)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
                caches = {
                    ast.unparse(d.func if isinstance(d, ast.Call) else d)
                    for d in node.decorator_list
                }
                if (
                    any(map(_makes_an_object, defaults))
                    or {c.rpartition(".")[2] for c in caches} & _CACHES
                ):
                    return node.name
            case _:
                pass
    return None


def _makes_an_object(value: ast.expr) -> bool:
    """Whether each evaluation gives another object that can change."""
    made = (
        ast.List
        | ast.Dict
        | ast.Set
        | ast.Call
        | ast.ListComp
        | ast.SetComp
        | ast.DictComp
        | ast.GeneratorExp
    )
    return any(isinstance(node, made) for node in ast.walk(value))


def _has_helpers(declaration: Declaration, blocks: Sequence[FlatBlock]) -> bool:
    block = next(block for block in blocks if block.pieces[0].symbol == declaration.symbol)
    owner = next(node for node in ast.parse(block.text).body if isinstance(node, ast.ClassDef))
    own = {name for piece in block.pieces for name in re.findall(r"\w+", piece.text)}
    names = (getattr(node, "name", "") for node in owner.body)
    return any(_HELPER.fullmatch(name) and name not in own for name in names)
