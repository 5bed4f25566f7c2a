"""What a patch file assigns to classes and modules of transformers, read and never run.

patch file                                     assignments
LlamaAttention.forward = forward               transformers...LlamaAttention.forward = def forward
def apply():                                   transformers...apply_rotary_pos_emb = def rotate
    modeling_llama.apply_rotary_pos_emb = rotate

The statements are followed in the order in which Python runs them: those of the file, and those of
the one function that applies the patch.  docs/adopt.md lists the forms that are read.  All others
may stand beside them as long as they assign nothing; else they are PG810 with their place.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from patchgen.author.adopt.forked import BUILTINS
from patchgen.author.align.file import File
from patchgen.author.anatomy.code import keywords
from patchgen.syntax.bound import bound_by, bound_names, own_nodes, parameters
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.same import is_documenting
from patchgen.syntax.scopes import references
from patchgen.syntax.text import make_source, parse, read_source
from patchgen.syntax.trees import Function, list_positional, names_within


@dataclass(frozen=True)
class Imported:
    """What an import binds, or an attribute of it: `transformers.models.llama.modeling_llama`."""

    path: str


@dataclass(frozen=True)
class Literal:
    value: object


@dataclass(frozen=True)
class Defined:
    """A function or class at the top of the patch file."""

    node: Function | ast.ClassDef


@dataclass(frozen=True)
class Unknown:
    """A value that only the running program knows."""

    why: str


Value = Imported | Literal | Defined | Unknown
Scope = ChainMap[str, Value]
Node = ast.expr | ast.stmt


@dataclass(frozen=True)
class Assignment:
    """A replaced attribute by its dotted name; `to_instances` of a class, by `isinstance`."""

    path: str
    value: Imported | Literal | Defined
    at: Location
    to_instances: bool


@dataclass(frozen=True)
class Patch:
    """A patch file, the last assignment to each name, and what its names are.

    `touched` are the names in calls that may change what they stand for.
    """

    file: File
    assignments: tuple[Assignment, ...]
    scope: Scope
    touched: Mapping[str, ast.stmt]


_HINT = "say what it assigns, as in --apply 'LlamaAttention.forward = forward'"
_LOG = re.compile(r"\w+\.(debug|info|warning|warning_once|error)\(")
_MODULES = re.compile(r"(?:reversed|list)?\(?(\w+)\.(?:(\w*modules\(\))|_modules\.items\(\))\)?")


def read_patch(path: Path, display_path: str, apply: str | None) -> Patch | None:
    """The patch in the file at `path`; None for a file that assigns nothing to transformers.

    `apply` is what runs the patch: `replace_attention(fast=True)`, or an assignment.
    """
    source = read_source(path, display_path=display_path)
    if apply is None and "transformers" not in source.text:
        return None
    file = File(source, parse(source))
    reader = _Reader(file, parse(make_source(apply or "", "--apply")).body)
    try:
        reader.run(file.tree.body, reader.module)
        if apply is None:
            reader.run_applier()
        else:
            reader.source = make_source(apply, "--apply")
            reader.module.setdefault("transformers", Imported("transformers"))
            reader.run(reader.applied, reader.module)
    except PatchgenError:
        is_patch = reader.finds_store(ast.walk(file.tree)) is not None
        if apply is None and file.classes and not is_patch:
            return None  # It may be a fork.
        raise
    if reader.assignments:
        return Patch(file, tuple(reader.assignments.values()), reader.module, reader.touched)
    if apply is not None:
        raise PatchgenError("PG810", Location("--apply"), "assigns nothing to transformers", _HINT)
    if not file.classes:
        for node in file.tree.body:
            if isinstance(node, Function) and _takes_self(node):
                what = f"defines the method {node.name}, and says not of which class"
                hint = f"say it: --apply 'LlamaAttention.forward = {node.name}', with your class"
                reader.refuse(node, what, hint)
    return None


class _Reader:
    """Follows statements.

    In a loop over all modules of a model, `subjects` are the texts that name each, and `guard` the
    class that `isinstance` has found it to be.
    """

    def __init__(self, file: File, applied: Sequence[ast.stmt]) -> None:
        self.file = file
        self.source = file.source
        self.applied = applied
        self.module: Scope = ChainMap({"__name__": Literal("")})
        self.assignments: dict[str, Assignment] = {}
        self.touched: dict[str, ast.stmt] = {}
        self.running: list[Function] = []
        self.followed: list[Function] = []
        self.subjects: tuple[str, ...] = ()
        self.guard = ""

    def refuse(self, node: Node, what: str, hint: str = _HINT) -> NoReturn:
        if self.running and hint == _HINT:
            function = self.running[0]
            arguments = ", ".join(f"{name}=..." for name in parameters(function))
            hint = f"say how it is applied: --apply '{function.name}({arguments})'; or {_HINT}"
        raise PatchgenError("PG810", self.source.at_node(node), what, hint)

    def finds_store(self, nodes: Iterable[ast.AST]) -> ast.Attribute | None:
        """The first of some nodes that assigns to an attribute of transformers."""
        for node in nodes:
            if isinstance(node, ast.Attribute) and _is_store(node):
                if is_of_transformers(self.value(node, self.module)):
                    return node
        return None

    # The function that applies the patch.

    def run_applier(self) -> None:
        """Run the one function that assigns something and that no other function calls."""
        acting: list[Function] = []
        for node in self.file.tree.body:
            if not isinstance(node, Function) or _takes_self(node) or node in self.followed:
                continue
            # What is assigned is the model's code.
            if any(other.value == Defined(node) for other in self.assignments.values()):
                continue
            inside = [n for n in own_nodes(node.body) if not isinstance(n, ast.Subscript)]
            if any(map(_is_store, inside)):
                acting.append(node)
        called: set[str] = set()
        for function in acting:
            called |= {name.id for name in names_within(function)} - {function.name}
        appliers = [function for function in acting if function.name not in called]
        if len(appliers) > 1:
            what = f"may apply the patch, and so may {appliers[0].name}"
            self.refuse(appliers[1], what, f"say which: --apply '{appliers[1].name}()'")
        for function in appliers:
            self._call(Defined(function), None, self.module)
        not_run: list[ast.stmt] = []
        for other in ast.walk(self.file.tree):
            if isinstance(other, Function) and other not in self.followed:
                not_run += other.body
        store = self.finds_store(own_nodes(not_run))
        if store is not None:
            self.refuse(store, "is assigned where nothing in this file applies it")

    def _call(self, callee: Defined, call: ast.Call | None, scope: Scope) -> None:
        """Follow a function of the file; without `call`, nothing is known of its arguments."""
        function = callee.node
        assert isinstance(function, Function)
        local: Scope = ChainMap({}, self.module)
        for name in parameters(function):
            local[name] = Unknown(f"`{name}`")
        arguments = _arguments(function, call) if call is not None else {}
        for name, node in arguments.items():
            value = self.value(node, scope)
            # A variable of which nothing is known is called as the parameter.
            if not isinstance(value, Unknown) or not isinstance(node, ast.Name):
                local[name] = value
        outside = self.source, self.subjects, self.guard
        self.source = self.file.source
        self.subjects = ()
        self.guard = ""
        self.running.append(function)
        self.followed.append(function)
        self.run(function.body, local)
        self.running.pop()
        self.source, self.subjects, self.guard = outside

    # Statements.

    def run(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Follow statements; whether they end the function."""
        return any(self._follow(node, scope) for node in body)

    def _follow(self, node: ast.stmt, scope: Scope) -> bool:
        for part in own_nodes([node]):
            if isinstance(part, ast.Call) and not _LOG.match(ast.unparse(part)):
                names = [read.id for read in names_within(part)]
                self.touched |= dict.fromkeys(names, node)
        match node:
            case ast.ImportFrom(module=module, names=[ast.alias("*")]):
                # Of what stands above, nobody knows what becomes.
                above = itertools.takewhile(lambda other: other is not node, self.file.tree.body)
                is_first = all(isinstance(other, ast.Import) for other in above)
                if not is_of_transformers(Imported(module or "")) or not is_first:
                    self.refuse(node, "imports `*`", "name what it imports")
                bound = {*self.file.definitions, *self.file.imports, *self.file.guarded, *BUILTINS}
                reads = references([*self.file.tree.body, *self.applied])
                free = {r.name for r in reads if r.name[0] != "_"} - bound
                scope |= {name: Imported(f"{module}.{name}") for name in sorted(free)}
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    path = alias.name if alias.asname else alias.name.partition(".")[0]
                    if isinstance(node, ast.ImportFrom):
                        dot = "." if node.module else ""
                        path = f"{'.' * node.level}{node.module or ''}{dot}{alias.name}"
                    scope[bound_by(alias)] = Imported(path)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                for decorator in node.decorator_list:
                    if not is_documenting(decorator):
                        self._evaluate(decorator, scope)
                inner = Unknown("a definition inside a function")
                scope[node.name] = Defined(node) if scope is self.module else inner
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value, scope)
            case ast.Expr(value=ast.Call(func=ast.Name("setattr"), args=[base, attr, value])):
                name = self.value(attr, scope)
                if not isinstance(name, Literal):
                    self.refuse(attr, f"builds the name `{ast.unparse(attr)}`")
                self._set(base, str(name.value), value, node, scope)
            case ast.Expr(value=value):
                self._evaluate(value, scope)
            case ast.If():
                return self._if(node, scope)
            case ast.For() if self._is_over_modules(node, scope):
                self.run(node.body, scope)
                self.subjects = ()
                self.guard = ""
            case ast.Return(value=value) if not self.subjects:
                if value is not None:
                    self._evaluate(value, scope)
                return True
            case ast.Raise():
                return True
            case _:
                self._pass_by(node, node, f"`{ast.unparse(node).splitlines()[0]}`", scope)
        return False

    def _assign(self, target: ast.expr, node: ast.expr, scope: Scope) -> None:
        if isinstance(target, ast.Attribute):
            self._set(target.value, target.attr, node, target, scope)
            return
        value = self.value(node, scope)
        is_name = isinstance(target, ast.Name)
        if isinstance(value, Unknown) or not is_name:
            self._evaluate(target, scope)
            self._evaluate(node, scope)
        scope |= {n: value if is_name else Unknown(f"`{n}`") for n in bound_names([target])}

    def _set(self, base: ast.expr, attr: str, node: ast.expr, at: Node, scope: Scope) -> None:
        """Follow `base.attr = node`."""
        owner = self.value(base, scope)
        is_class = is_of_transformers(owner)
        if is_class:
            path = f"{_path(owner)}.{attr}"
            value: Value | None = self.value(node, scope)
        else:
            path = f"{self.guard}.{attr}"
            value = self._bound_method(base, node, scope)
        if value is None:
            text = ast.unparse(base)
            what = f"assigns to `{text}.{attr}`, which is no class or module that the file imports"
            hint = f"if it is of one class: --apply 'LlamaAttention.{attr} = ...', with your class"
            self.refuse(at, what, hint)
        if isinstance(value, Unknown):
            self.refuse(node, f"{_shown(path)} depends on {value.why}")
        before = self.assignments.pop(path, None)
        if before is not None and before.to_instances is is_class:
            self.refuse(at, f"assigns {_shown(path)} in two ways")
        self.assignments[path] = Assignment(path, value, self.source.at_node(at), not is_class)

    def _bound_method(self, base: ast.expr, node: ast.expr, scope: Scope) -> Value | None:
        """The function of `types.MethodType(function, module)` for the module of a loop."""
        match node:
            case ast.Call(func=maker, args=[function, of]) if self.guard:
                is_method = self.value(maker, scope) == Imported("types.MethodType")
                if is_method and {ast.unparse(base), ast.unparse(of)} <= {*self.subjects}:
                    return self.value(function, scope)
        return None

    def _if(self, node: ast.If, scope: Scope) -> bool:
        match node:
            case ast.If(ast.Call(ast.Name("isinstance"), [ast.Name(name), kind]), body, []):
                owner = self.value(kind, scope)
                if is_of_transformers(owner) and name in self.subjects and not self.guard:
                    self.guard = _path(owner)
                    self.run(body, scope)
                    self.guard = ""
                    return False
        truth = self.value(node.test, scope)
        if isinstance(truth, Literal):
            return self.run(node.body if truth.value else node.orelse, scope)
        imports = all(isinstance(part, ast.Import | ast.ImportFrom) for part in node.body)
        # Where the one import of a name is not made, what the patch reads is not there.
        if imports and not node.orelse and scope.keys().isdisjoint(bound_names(node.body)):
            return self.run(node.body, scope)
        why = truth.why if isinstance(truth, Unknown) else f"`{ast.unparse(node.test)}`"
        self._pass_by(node, node.test, why, scope)
        return False

    def _is_over_modules(self, node: ast.For, scope: Scope) -> bool:
        """Whether a loop has all modules of a model, or those of one module and then theirs.

        for module in model.modules():        for name, module in model._modules.items():
                                                  if len(list(module.children())) > 0:
                                                      enable(module)
        """
        over = _MODULES.fullmatch(ast.unparse(node.iter))
        if over is None or not self.running:
            return False
        model, all_modules = over.groups()
        if scope.get(model) != Unknown(f"`{model}`"):
            return False
        targets = getattr(node.target, "elts", [node.target])
        names = [ast.unparse(target) for target in targets]
        key = names[0]
        module = names[-1]
        leaves = any(isinstance(inner, ast.Break | ast.Return) for inner in own_nodes(node.body))
        if leaves or node.orelse or not {*names}.isdisjoint(bound_names(node.body)):
            return False
        if not all_modules:
            call = f"{self.running[-1].name}({module})"
            turns = (call, f"if len(list({module}.children())) > 0:\n    {call}")
            if not any(ast.unparse(part) in turns for part in node.body):
                return False
        self.subjects = (module, f"{model}._modules[{key}]")
        for name in names:
            scope[name] = Unknown(f"`{name}` of the loop")
        return True

    # What may stand beside a patch.

    def _pass_by(self, node: ast.stmt, at: Node, why: str, scope: Scope) -> None:
        """Leave out a statement that nothing decides; refuse it where it may change something."""
        change = self._change([node], scope)
        if change is not None:
            stored = self.value(change, scope) if isinstance(change, ast.expr) else None
            what = _shown(_path(stored)) if is_of_transformers(stored) else "what follows"
            self.refuse(at, f"{what} depends on {why}")
        scope |= {name: Unknown(why) for name in bound_names([node])}

    def _evaluate(self, node: ast.expr, scope: Scope) -> None:
        """Follow a call of a function of the file; refuse what may change something."""
        if isinstance(node, ast.Call):
            callee = self.value(node.func, scope)
            if isinstance(callee, Defined) and isinstance(callee.node, Function):
                if callee.node not in self.running:
                    self._call(callee, node, scope)
                return
        change = self._change([node], scope)
        if change is not None:
            text = ast.unparse(change).splitlines()[0]
            self.refuse(change, f"`{text}` stands where this file does not say what becomes of it")

    def _change(self, nodes: Iterable[ast.AST], scope: Scope) -> Node | None:
        """What of `nodes`, outside nested functions, may change more than local names.

        That is also what may be handed to code of another file.
        """
        for node in own_nodes(nodes):
            match node:
                case ast.Return() | ast.Continue() | ast.Global() | ast.Nonlocal():
                    return node
                case ast.Call(func=callee, args=args, keywords=keywords):
                    values = [*args, *(argument.value for argument in keywords)]
                    # A function of transformers changes no model by itself.
                    if not is_of_transformers(self.value(callee, scope)):
                        if any(is_of_transformers(self.value(n, scope)) for n in values):
                            return node
                case ast.Name() | ast.Attribute() | ast.Subscript():
                    value = self.value(node, scope)
                    is_code = isinstance(value, Defined) and value.node not in self.running
                    is_registry = re.fullmatch(r"transformers\..*\.[A-Z][A-Z0-9_]*", _path(value))
                    if _is_store(node) or is_code or is_registry:
                        return node
        return None

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """What an expression is, as far as the file says it."""
        match node:
            case ast.Constant(value=constant):
                return Literal(constant)
            case ast.Name(id=name) if name in scope:
                return scope[name]
            case ast.Attribute(value=base, attr=attr):
                owner = self.value(base, scope)
                if isinstance(owner, Imported):
                    return Imported(f"{owner.path}.{attr}")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = self.value(test, scope)
                if isinstance(truth, Literal):
                    return self.value(body if truth.value else orelse, scope)
                return truth if isinstance(truth, Unknown) else Unknown(f"`{ast.unparse(test)}`")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self.value(operand, scope)
                return Literal(not value.value) if isinstance(value, Literal) else value
            case ast.Compare(
                left, [ast.Eq() | ast.Is() | ast.NotEq() | ast.IsNot() as op], [right]
            ):
                match self.value(left, scope), self.value(right, scope):
                    case Literal(one), Literal(other):
                        return Literal((one == other) is isinstance(op, ast.Eq | ast.Is))
            case ast.Compare(
                left, [ast.In() | ast.NotIn() as op], [ast.List(elts) | ast.Tuple(elts)]
            ):
                one = self.value(left, scope)
                others = [self.value(each, scope) for each in elts]
                if isinstance(one, Literal) and all(isinstance(o, Literal) for o in others):
                    return Literal((one in others) is isinstance(op, ast.In))
            case ast.BoolOp(op, [*operands, last]):
                for operand in operands:
                    value = self.value(operand, scope)
                    if not isinstance(value, Literal):
                        return Unknown(f"`{ast.unparse(operand)}`")
                    if bool(value.value) is isinstance(op, ast.Or):
                        return value
                return self.value(last, scope)
        return Unknown(f"`{ast.unparse(node)}`")


def _is_store(node: ast.AST) -> bool:
    """Whether a node sets an attribute or an item, or names what may."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Name) and node.id in ("setattr", "delattr", "exec", "eval")


def _arguments(function: Function, call: ast.Call) -> dict[str, ast.expr]:
    """What the parameters are given, by name; nothing where the call unpacks something."""
    unpacks = any(isinstance(node, ast.Starred) for node in ast.walk(call))
    given = keywords(call)
    if unpacks or None in given:
        return {}
    args = function.args
    positional = [arg.arg for arg in list_positional(args)]
    # Defaults are those of the last parameters.
    arguments = dict(zip(positional[::-1], args.defaults[::-1], strict=False))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if default is not None:
            arguments[arg.arg] = default
    arguments.update(zip(positional, call.args, strict=False))
    for name, value in given.items():
        arguments[str(name)] = value
    return arguments


def _takes_self(function: Function) -> bool:
    return parameters(function)[:1] == ("self",)


def _path(value: Value | None) -> str:
    return value.path if isinstance(value, Imported) else ""


def is_of_transformers(value: Value | None) -> bool:
    return _path(value).partition(".")[0] == "transformers"


def _shown(path: str) -> str:
    """`LlamaAttention.forward` of its whole path."""
    return re.sub(r"^transformers\..*\.modeling_\w+\.", "", path)
