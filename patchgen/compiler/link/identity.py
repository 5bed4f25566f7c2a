"""Find the merged classes that code of the output can tell from subclasses.

    class TinyMLP(llama.LlamaMLP): ...         merged: the flat TinyMLP derives from nn.Module

    if isinstance(module, LlamaMLP): ...       LlamaMLP stands in the file as well, and TinyMLP
                                               would not be one: it stays a subclass

In: the outputs of a modular file, with all classes merged.  Out: the classes that have to stay
subclasses, each with the reason.  Code can tell the difference where

- the parent stands in the file as well, because other code names it.  Then `isinstance`, `except`
  or a table may ask for it, and what is stored in it is stored for its subclasses too;
- the parent is merged into several classes and holds an object that these would share;
- code looks at the classes of an object, or at the names that it has.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.trees import (
    called_function,
    list_defaults,
    list_parameters,
    names_within,
    parse_class,
    parse_once,
    walk,
)

# Code that looks at the classes of an object.
_CLASSES = re.compile(
    r"\b(?:__mro__|__bases__|__base__|__subclasses__|__orig_bases__|__annotations__|getmro|mro\(\)"
    r"|get_original_bases|classify_class_attrs|getdoc\(|__qualname__|co_qualname)"
    r"|(?:\.|[\"'])__slots__\b"
)
# Every match has one of these in it; likewise below.
_CLASS_WORDS = (
    *("mro", "__base", "_bases", "__subclasses__", "__annotations__", "classify_class_attrs"),
    *("getdoc(", "_qualname", "__slots__"),
)
# Code that looks at the names in the body of a class.
# In another case, such as `vars(head)`, it is the dictionary of an object.
_CLASS = r"(?<![\w.])(?:cls|klass|_*[A-Z]\w*)"
_OWN_NAMES = re.compile(
    rf"(?:{_CLASS}|\btype\([^()]*\)|\b__class__)\.__dict__"
    rf"|\bvars\((?:{_CLASS}\s*\)|type\(|\w+\.__class__)"
)
_OWN_WORDS = ("__dict__", "vars(")
# What is not `super()`: in code or, far more often, in a docstring.
_OTHER_SUPER = re.compile(r"\.super\b|\bsuper\b(?!\()|\bdef super\b")
# Code that looks at all names of an object.
_NAMES = re.compile(r"\b(?:dir|getmembers|getmembers_static)\(|\b(?:__dir__|co_name)\b")
_NAME_WORDS = ("dir(", "__dir__", "getmembers", "co_name")
# A parent's method that is kept for `super()`, such as `_forward_of_LlamaMLP`.
_HELPER = re.compile(r"_\w+_of_\w+")
_CACHES = frozenset({"cache", "lru_cache"})
_MUTABLE = (
    ast.List
    | ast.Dict
    | ast.Set
    | ast.Call
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)


def find_observed_merges(blocks: Sequence[FlatBlock], builder: Builder) -> dict[Symbol, str]:
    """The merged classes among `blocks` that have to stay subclasses of their parents, and why.

    Raises PatchgenError PG119 for one that cannot, because it edits or removes members.
    """
    plan = builder.naming.plan
    merged = []
    for block in blocks:
        declaration = plan.declaration(block.rewritten[0].symbol)
        if declaration is not None and declaration.is_merged:
            merged.append(declaration)
    found: dict[Symbol, str] = {}
    for declaration in merged:
        # Asked of every class, as the question may raise.
        why = next(_find_reasons(declaration, blocks, merged), "")
        if why and not declaration.rewrites:
            found[declaration.symbol] = why
    return found


def _find_reasons(
    declaration: Declaration, blocks: Sequence[FlatBlock], merged: Sequence[Declaration]
) -> Iterator[str]:
    """Why the class cannot be merged unnoticed; only the first reason is asked for."""
    yield from _find_carried_parents(declaration, blocks)
    yield from _find_searches_behind(declaration, blocks)
    if declaration.rewrites:
        return  # it cannot stay a subclass
    yield from _find_shared_objects(declaration, blocks, merged)
    for block in blocks:
        yield from _find_inspections(declaration, block, blocks)


def _find_inspections(
    declaration: Declaration, block: FlatBlock, blocks: Sequence[FlatBlock]
) -> Iterator[str]:
    """A reason where the code of `block` looks at classes, or at the names of objects."""
    name, found = _describe(block), _inspect(block.text)
    if found.classes:
        yield f"{name} looks at the classes of an object ({found.classes})"
    if found.renames_super:
        yield f"{name} uses super under another name, or another thing named super"
    # An object of a merged class has the same names, unless merging added some.
    if found.names and _has_helpers(declaration, blocks):
        yield f"{name} looks at the names of an object ({found.names})"


@dataclass(frozen=True, slots=True)
class _Inspections:
    """The code of a block that looks at classes, and at the names of objects, or ""."""

    classes: str
    names: str
    renames_super: bool


@functools.lru_cache(maxsize=4096)  # Each class of a file asks about each of its blocks.
def _inspect(text: str) -> _Inspections:
    """What the code of a block looks at; comments do not count."""
    lines = text.split("\n")
    code = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    classes = _search(_CLASSES, _CLASS_WORDS, code) or _search(_OWN_NAMES, _OWN_WORDS, code)
    names = _search(_NAMES, _NAME_WORDS, code)
    return _Inspections(
        classes=classes.group() if classes else "",
        names=names.group() if names else "",
        renames_super=_may_rename_super(code) and _renames_super(ast.parse(text)),
    )


def _may_rename_super(code: str) -> bool:
    """Whether `code` has `super` otherwise than as the beginning of a call of the builtin."""
    is_called = code.count("super") == code.count("super(")
    if is_called and ".super" not in code and "def super" not in code:
        return False
    return _OTHER_SUPER.search(code) is not None


def _search(pattern: re.Pattern[str], words: tuple[str, ...], code: str) -> re.Match[str] | None:
    """The first match of `pattern`, each of which has one of `words` in it."""
    # To look for a word takes a hundredth of the time.
    return pattern.search(code) if any(word in code for word in words) else None


def _describe(block: FlatBlock) -> str:
    """The block as the subject of a sentence."""
    return block.name or "a statement"


def _renames_super(tree: ast.Module) -> bool:
    """Whether code does anything with `super` but call it: `sup = super`, `builtins.super(...)`.

    What stands in such a call is not resolved, and needs the parents.
    """
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="super") if id(node) not in called:
                return True
            case ast.Attribute(value=ast.Name(id="builtins"), attr="super"):
                return True
            case ast.FunctionDef(name="super") | ast.arg(arg="super") | ast.alias(name="super"):
                return True
    return False


def _find_carried_parents(declaration: Declaration, blocks: Sequence[FlatBlock]) -> Iterator[str]:
    """A reason for each parent that stands in the file as well.

    Raises PG119 where code asks for such a parent of a class that cannot stay a subclass.
    """
    carried = {block.rewritten[0].symbol: block for block in blocks if block.kind == "class"}
    for parent in declaration.parents:
        if parent not in carried:
            continue
        parent_name = carried[parent].name
        if not declaration.rewrites:
            yield f"{parent_name} stands in the file as well"
            continue
        for block in blocks:
            at = _find_question(block, parent_name, parent)
            if at is None:
                continue
            name = declaration.symbol.name
            what = f"{_describe(block)} asks for {parent}, which is merged into {name}"
            hint = f"{name} would stay a subclass if it did not edit or remove what it inherits"
            raise PatchgenError("PG119", at, what, hint)


def _find_question(block: FlatBlock, name: str, symbol: Symbol) -> Location | None:
    """Where a block uses a class in a way that depends on who its subclasses are.

    A base, an annotation and a call that makes an object do not.
    """
    # Most blocks do not use the class, and need not be parsed.
    wanted = (name, symbol)
    if wanted not in ((used.name, used.symbol) for used in block.dependencies):
        return None
    tree = parse_once(block.text)
    harmless = {id(node) for node in _find_harmless_uses(tree)}
    for node in names_within(tree):
        is_read = node.id == name and isinstance(node.ctx, ast.Load)
        if not is_read or id(node) in harmless:
            continue
        rewritten = block.rewritten[0]
        # In a merged class, the line is not known.
        if len(block.rewritten) > 1:
            return rewritten.at(1, 0)
        return rewritten.at(node.lineno, node.col_offset)
    return None


def _find_searches_behind(declaration: Declaration, blocks: Sequence[FlatBlock]) -> Iterator[str]:
    """A reason where other code says `super(Class, self)`, which begins at the class's parents.

    Raises PG119 where the class cannot stay a subclass of them.
    """
    own = _find_own_block(declaration, blocks)
    for block in blocks:
        # In the class itself, `supers` knows which class each statement came from.
        if block is own:
            continue
        for owner, call in _find_searches(block.text):
            if owner != own.name:
                continue
            what = f"{_describe(block)} calls {call}"
            if declaration.rewrites:
                merged = f"{what}, whose parents are merged into {own.name}"
                hint = f"{own.name} would stay a subclass if it did not edit or remove members"
                raise PatchgenError("PG119", block.rewritten[0].at(1, 0), merged, hint)
            yield what


def _find_own_block(declaration: Declaration, blocks: Sequence[FlatBlock]) -> FlatBlock:
    """The block of the class itself."""
    return next(block for block in blocks if block.rewritten[0].symbol == declaration.symbol)


# Each class of a module asks about all other blocks.
@functools.lru_cache(maxsize=4096)
def _find_searches(text: str) -> tuple[tuple[str, str], ...]:
    """The class that each `super(Class, self)` in `text` names, and the call."""
    # Nearly every block says `super()` alone, and need not be parsed.
    if text.count("super") == text.count("super()"):
        return ()
    found = []
    for node in walk(parse_once(text)):
        match node:
            case ast.Call(func=ast.Name(id="super"), args=[ast.Name(id=owner), _]):
                found.append((owner, ast.unparse(node)))
    return tuple(found)


def _find_harmless_uses(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that name a class whatever its subclasses are.

    class Own(Base): ...            a base
    Base(config)                    a call that makes an object
    def f(x: Base): ...             an annotation
    """
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(bases=bases):
                yield from bases
            case ast.Call(func=ast.Name() as called):
                yield called
            # A decorator might read the annotations.
            case ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]):
                annotations = [parameter.annotation for parameter in list_parameters(node.args)]
                for annotation in [*annotations, node.returns]:
                    if annotation is not None:
                        yield from ast.walk(annotation)


def _find_shared_objects(
    declaration: Declaration, blocks: Sequence[FlatBlock], merged: Sequence[Declaration]
) -> Iterator[str]:
    """A reason for each object of a parent that several classes share.

    class Base: table = {}          One.table and Two.table are one dictionary, and would be
    class One(Base): ...            two in the merged classes
    class Two(Base): ...
    """
    rewritten_blocks: dict[Symbol, RewrittenBlock] = {}
    for block in blocks:
        rewritten_blocks.update((rewritten.symbol, rewritten) for rewritten in block.rewritten)
    others = [other for other in merged if other.symbol != declaration.symbol]
    for parent in declaration.parents:
        heirs = [other.symbol.name for other in others if parent in other.parents]
        if not heirs or parent not in rewritten_blocks:
            continue
        # One reason is enough: the class then stays a subclass with all that it shares.
        attribute = _find_object(rewritten_blocks[parent])
        if attribute is not None:
            yield f"{heirs[0]} has the same {parent.name}.{attribute}"


def _find_object(rewritten: RewrittenBlock) -> str | None:
    """The name of an object that can change and that the class body makes."""
    for node in parse_class(rewritten.text).body:
        match node:
            case ast.Assign(targets=[target, *_], value=value) if _makes_object(value):
                return ast.unparse(target)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if _makes_object(value):
                return ast.unparse(target)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _keeps_object(node):
                return node.name
    return None


def _keeps_object(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a default or a cache keeps an object from one call to the next."""
    if _is_cached(method):
        return True
    return any(_makes_object(default) for default in list_defaults(method.args))


def _is_cached(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator keeps the results: `@lru_cache`, `@functools.cache`."""
    for decorator in method.decorator_list:
        name = ast.unparse(called_function(decorator))
        if name.rpartition(".")[2] in _CACHES:
            return True
    return False


def _makes_object(value: ast.expr) -> bool:
    """Whether each evaluation gives another object that can change."""
    return any(isinstance(node, _MUTABLE) for node in ast.walk(value))


def _has_helpers(declaration: Declaration, blocks: Sequence[FlatBlock]) -> bool:
    """Whether merging added methods to the class, such as `_forward_of_LlamaMLP`."""
    block = _find_own_block(declaration, blocks)
    # A method of such a name may also have been written by hand.
    written: set[str] = set()
    for rewritten in block.rewritten:
        written.update(re.findall(r"\w+", rewritten.text))
    for node in parse_class(block.text).body:
        name = getattr(node, "name", "")
        if _HELPER.fullmatch(name) and name not in written:
            return True
    return False
