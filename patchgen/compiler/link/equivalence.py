"""Whether two symbols are one thing under two addresses.

`transformers.utils.can_return_tuple` is a re-export of `transformers.utils.generic.can_return_tuple`, and
`rotate_half` is copied from model to model: code of two modules that reads either can stand in one file.
"""

from __future__ import annotations

import ast

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.changes import is_plain, is_plain_value
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import Location
from patchgen.syntax.blocks import Block

_OF_LIBRARIES = frozenset({"torch", "nn"})
_PLAIN_DECORATORS = frozenset(
    (
        "property setter getter deleter staticmethod classmethod abstractmethod contextmanager"
        " wraps overload dataclass total_ordering override final deprecated strict"
        " can_return_tuple auto_docstring capture_outputs merge_with_config_defaults"
        " filter_output_hidden_states select_hidden_states accepts_precomputed_kwargs"
        " force_accelerate_hooks maybe_autocast dynamic_rope_update use_kernel_forward_from_hub"
        " use_kernel_func_from_hub use_kernel_func_from_hub_with_fallback use_kernelized_func"
        " use_experts_implementation deprecate_kwarg requires add_start_docstrings"
        " add_start_docstrings_to_model_forward replace_return_docstrings"
        " filter_out_non_signature_kwargs compile_compatible_method_lru_cache"
    ).split()
)
_NOWHERE = Location("")
_RE_EXPORTS = 8  # deeper than any chain of imports in transformers


Pairs = frozenset[tuple[Symbol, Symbol]]


def is_same_definition(
    a: Symbol, b: Symbol, bindings: Bindings, assumed: Pairs = frozenset()
) -> bool:
    """Whether `a` and `b` have one definition, or two of the same text that mean the same.

    `assumed` are pairs that are being compared already: functions may call each other.
    """
    if a.is_same(b) or (a, b) in assumed:
        return True
    first, second = _resolved(a, bindings), _resolved(b, bindings)
    return first.is_same(second) or _same_text(first, second, bindings, assumed | {(a, b)})


def _resolved(symbol: Symbol, bindings: Bindings) -> Symbol:
    """The symbol with every re-export inside transformers followed."""
    for _ in range(_RE_EXPORTS):
        known = symbol.name and symbol.module.partition(".")[0] == "transformers"
        if not known or bindings.env.path(symbol.module) is None:
            break
        index = bindings.env.index(symbol.module, _NOWHERE)
        item = None if index.definition(symbol.name) else index.imported(symbol.name)
        if item is None:
            break
        symbol = bindings.imported_symbol(index, item)
    return symbol


def _same_text(a: Symbol, b: Symbol, bindings: Bindings, assumed: Pairs) -> bool:
    """Whether two functions or constants are copies, and what they read of their modules is the same too."""
    if not all(
        bindings.flatten_scope.flattens(s.module) and bindings.env.path(s.module) for s in (a, b)
    ):
        return False
    first, second = bindings.env.index(a.module, _NOWHERE), bindings.env.index(b.module, _NOWHERE)
    one, other = first.definition(a.name), second.definition(b.name)
    if (
        one is None
        or other is None
        or one.text != other.text
        or one.kind == "class"
        or not is_copied_freely(one)
    ):
        return False
    meanings = [
        (bindings.meaning(first, name), bindings.meaning(second, name))
        for name in one.uses - {a.name}
    ]
    return all(
        x == y or (x and y and is_same_definition(x, y, bindings, assumed)) for x, y in meanings
    )


def is_copied_freely(block: Block) -> bool:
    """Whether nobody can tell two objects that `block` makes from one: a function, a class without state, a number.

    `CACHE = {}` in two modules is two dictionaries.  A guarded import brings one object, however often it runs.
    """
    if block.is_guarded:
        return all(map(_only_imports, ast.parse(block.text).body))
    if block.kind not in ("class", "def"):
        return is_plain(block)
    (node,) = ast.parse(block.text).body
    members = node.body if isinstance(node, ast.ClassDef) else [node]
    return all(map(_has_no_state, members)) and not any(
        _remembers(n, block.name) for n in ast.walk(node)
    )


def _remembers(node: ast.AST, name: str) -> bool:
    """Whether what `name` stands for keeps something from one use to the next."""
    match node:
        case ast.Global() | ast.Attribute(attr="__subclasses__" | "__dict__"):
            return True
        case (
            ast.Attribute(value=owner, ctx=ast.Store() | ast.Del())
            | ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_])
        ):
            return _is_class_or_function(owner, name)
        case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
            return not all(map(_keeps_nothing, decorators))
        case _:
            return False


def _is_class_or_function(owner: ast.expr, name: str) -> bool:
    """Whether an attribute of `owner` is one of the definition `name` itself, and not of an object: `type(self).n`."""
    match owner:
        case ast.Name(id=found):
            return found in ("cls", name)
        case ast.Attribute(attr="__class__") | ast.Call(func=ast.Name(id="type")):
            return True
        case _:
            return False


def _keeps_nothing(decorator: ast.expr) -> bool:
    """Whether a decorator is one of Python's that remember nothing, or one of torch and transformers."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    first, *rest = ast.unparse(called).split(".")
    return first in _OF_LIBRARIES or (rest or [first])[-1] in _PLAIN_DECORATORS


def _only_imports(node: ast.stmt) -> bool:
    """Whether `node` binds names to what is imported by its absolute name, or to plain values, and does no more."""
    match node:
        case ast.Try():
            handled = [child for handler in node.handlers for child in handler.body]
            return all(map(_only_imports, [*node.body, *handled, *node.orelse, *node.finalbody]))
        case ast.If(test=ast.Name() | ast.Call(func=ast.Name(), args=[], keywords=[])):
            return all(map(_only_imports, [*node.body, *node.orelse]))
        case ast.Assign(targets=[ast.Name()], value=value):
            return is_plain_value(value)
        case ast.ImportFrom():
            return node.level == 0
        case _:
            return isinstance(node, ast.Import | ast.Pass)


def _has_no_state(node: ast.stmt) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [
                *node.args.defaults,
                *(default for default in node.args.kw_defaults if default),
            ]
            return not any(
                isinstance(n, ast.Call | ast.List | ast.Dict | ast.Set)
                for d in defaults
                for n in ast.walk(d)
            )
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return is_plain_value(value) or isinstance(value, ast.Name | ast.Attribute)
        case _:
            return isinstance(node, ast.AnnAssign | ast.Pass | ast.Expr)
