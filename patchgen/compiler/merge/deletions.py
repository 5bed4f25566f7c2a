"""Report `del self.x` where nothing sets `x`: the parent has changed, or the name is misspelt.

    class LlamaMLP(llama.LlamaMLP):
        def __init__(self, config):
            super().__init__(config)
            del self.up_porj        # PG232; Python would raise AttributeError when a model is built

A deletion is a statement like any other and keeps its place.  Only one that must fail is refused:
where the classes or a base may set attributes under computed names, nothing is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgen.compiler.classes.assigned import find_assigned, registers_by_expression
from patchgen.compiler.classes.classbody import ClassBody
from patchgen.compiler.classes.statement import Statement
from patchgen.compiler.supers.supercall import find_methods, first_parameter
from patchgen.facts.bases import MODEST_BASES, SET_BY_BASES
from patchgen.facts.decorators import SETTING_NOTHING
from patchgen.syntax.bound import FunctionNode
from patchgen.syntax.errors import PatchgenError, Problem, did_you_mean
from patchgen.syntax.trees import called_function

# They are given an object and set nothing on it.
_READING = frozenset({"bool", "getattr", "hasattr", "id", "isinstance", "len", "repr", "type"})
_SETTING = frozenset({"__dict__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__"})


def find_useless_deletions(bodies: Sequence[ClassBody], bases: Sequence[str]) -> Iterator[Problem]:
    """A problem for each `del self.x` of the first class that must raise AttributeError.

    `bases` are the bases outside the chain.
    """
    # Nearly no class has any: then nothing else need be read.
    deletions = list(_find_deletions(bodies[0]))
    # Silence is better than a wrong error.
    if len(bodies) == 1 or not deletions or not _all_is_seen(bodies, bases):
        return
    own = bodies[0].own_name
    known = _find_known(bodies)
    for statement, deletion, name in deletions:
        if name in known:
            continue
        what = f"self.{name} is deleted, but no class that {own} is merged with sets it"
        hint = did_you_mean(name, known) or "remove the line"
        at = bodies[0].at(statement, deletion)
        yield PatchgenError("PG232", at, what, hint).problem


def _find_known(bodies: Sequence[ClassBody]) -> set[str]:
    """Every attribute that an object may have while `__init__` runs."""
    known = set(SET_BY_BASES)
    for body in bodies:
        known |= body.names
    for method in _methods(bodies):
        # Any method may set the attribute before `__init__` deletes it.
        known |= find_assigned(method, first_parameter(method) or "", deletions=False)
    return known


def _find_deletions(body: ClassBody) -> Iterator[tuple[Statement, ast.stmt, str]]:
    """Each `del self.x` at the top of `__init__`, with the statement that it stands in."""
    for statement in body.binders("__init__"):
        method = statement.node
        if not isinstance(method, ast.FunctionDef):
            continue
        for node in method.body:
            match node:
                case ast.Delete(targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)]):
                    # Bases set private attributes that are not listed above.
                    if owner == first_parameter(method) and not name.startswith("_"):
                        yield statement, node, name


def _all_is_seen(bodies: Sequence[ClassBody], bases: Sequence[str]) -> bool:
    """Whether every attribute that the classes and their bases set can be read from their text."""
    for base in bases:
        if base.rpartition(".")[2] not in MODEST_BASES:
            return False
    if any(_may_be_set_around(body) for body in bodies):
        return False
    return not any(_may_set_unseen(method) for method in _methods(bodies))


def _may_be_set_around(body: ClassBody) -> bool:
    """Whether something beside the methods of a class may set attributes of its objects."""
    # A metaclass, or a hook for attributes, may set anything.
    if _SETTING & body.names or body.node.keywords:
        return True
    decorators = {decorator.short_name for decorator in body.decorators}
    return not decorators <= SETTING_NOTHING


def _methods(bodies: Sequence[ClassBody]) -> Iterator[FunctionNode]:
    """Every function of the class bodies, also those under `if`."""
    for body in bodies:
        for statement in body.statements:
            yield from find_methods(statement.node)


def _may_set_unseen(method: FunctionNode) -> bool:
    """Whether `method` hands its object on, or sets attributes under names that are computed.

    register(self)                  whoever is given the object can set anything on it
    setattr(self, name, 3)          which attribute this is, is known at run time only
    """
    receiver = first_parameter(method)
    for decorator in getattr(method, "decorator_list", []):
        if _last_name(decorator) not in SETTING_NOTHING:
            return True
    held = _find_held(method)
    for node in ast.walk(method):
        match node:
            case ast.Name(id="setattr" | "vars" | "locals" | "exec" | "eval"):
                return True
            case ast.Attribute(attr=name) if name in _SETTING:
                return True
            case ast.Name(id=name) if name == receiver and id(node) not in held:
                return True
            case ast.Call() if registers_by_expression(node):
                return True
    return False


def _find_held(method: FunctionNode) -> set[int]:
    """The identities of nodes whose object is only read: `x` in `x.size` and in `len(x)`."""
    held: set[int] = set()
    for node in ast.walk(method):
        match node:
            case ast.Attribute(value=value):
                held.add(id(value))
            case ast.Call(func=ast.Name(id=called), args=arguments) if called in _READING:
                held |= {id(argument) for argument in arguments}
    return held


def _last_name(decorator: ast.expr) -> str:
    """The name of a decorator, whatever module it is reached by."""
    return ast.unparse(called_function(decorator)).rpartition(".")[2]
