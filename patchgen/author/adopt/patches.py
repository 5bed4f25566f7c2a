"""What a patch file assigns to classes and modules of transformers, read and never run.

patch file                                     assignments
LlamaAttention.forward = forward               transformers...LlamaAttention.forward = def forward
def apply():                                   transformers...apply_rotary_pos_emb = def rotate
    modeling_llama.apply_rotary_pos_emb = rotate

The statements are followed in the order in which Python runs them: those of the file, and those of
the functions in it that apply the patch.  What cannot be decided without running them is a problem
with its place.
"""

from __future__ import annotations

import ast
import re
from collections import ChainMap
from collections.abc import Iterable, Sequence
from pathlib import Path

from patchgen.author.adopt.patch_targets import exports, has_attribute, has_name
from patchgen.author.adopt.patch_values import (
    Assignment,
    Defined,
    Imported,
    Literal,
    Method,
    Patch,
    Scope,
    Unknown,
    Value,
    changed_names,
    compare,
    is_name,
    is_of_transformers,
    leaves,
    one_subject,
    path_of,
    takes_self,
    without_annotations,
)
from patchgen.author.align.file import File
from patchgen.syntax.bound import bound_by, bound_names
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.same import Function
from patchgen.syntax.text import make_source, parse, read_source

APPLY = "--apply"


def read_patch(path: Path, display_path: str, apply: str | None, root: Path) -> Patch | None:
    """The patch in the file at `path`; None for a file that assigns nothing to transformers.

    `apply` is what runs the patch: `replace_attention(fast=True)`, or an assignment.  `root` is the
    folder of the release, which decides `hasattr(modeling_llama, "LlamaFlashAttention2")`.
    """
    source = read_source(path, display_path=display_path)
    if apply is None and "transformers" not in source.text:
        return None
    reader = _Reader(File(source, parse(source)), root)
    reader.run(reader.file.tree.body, reader.module)
    if apply is not None:
        reader.file_path = APPLY
        tree = parse(make_source(apply, APPLY))
        for node in ast.walk(tree):
            if isinstance(node, Function | ast.ClassDef | ast.Lambda):
                at = reader.at(node)
                raise PatchgenError("PG810", at, "defines something", "define it in the file")
        reader.module.setdefault("transformers", Imported("transformers"))
        reader.run(tree.body, reader.module)
    else:
        reader.run_appliers()
    named = [path for path, _ in reader.problems if path]
    if not reader.assignments and not named and (reader.file.classes or not reader.problems):
        # With classes, it may be a fork that does what no declaration can.
        if apply is not None:
            what = "assigns nothing to transformers"
            raise PatchgenError("PG810", Location(APPLY, 1, 1), what, _HINT)
        _refuse_methods_alone(reader.file)
        return None
    last = {one.path: one for one in reader.assignments}
    stars, problems = tuple(reader.stars), tuple(reader.problems)
    changed = {node: changed_names(node, reader.module) for node in reader.called}
    return Patch(reader.file, tuple(last.values()), reader.module, stars, changed, problems)


_HINT = "say what it assigns, as in --apply 'LlamaAttention.forward = forward'"
_METHODS = ("MethodType", "types.MethodType")


def _refuse_methods_alone(file: File) -> None:
    """Refuse a file of functions for a class that another file assigns."""
    functions = [node for node in file.tree.body if isinstance(node, Function)]
    methods = [node for node in functions if takes_self(Defined(node))]
    if methods and not file.classes:
        name = methods[0].name
        what = f"defines the method {name}, and says not of which class"
        hint = f"say it: {APPLY} 'LlamaAttention.forward = {name}', with your class"
        raise PatchgenError("PG810", file.source.at_node(methods[0]), what, hint)


class _Reader:
    """Follows statements; `maybe` are the conditions around them that nothing decides."""

    def __init__(self, file: File, root: Path) -> None:
        self.file, self.root = file, root
        self.file_path = file.source.path
        self.module: Scope = ChainMap({"__name__": Literal("")})
        self.stars: list[str] = []
        self.assignments: list[Assignment] = []
        self.problems: list[tuple[str, Problem]] = []
        self.maybe: list[Unknown] = []
        self.guards: list[tuple[str, str, str]] = []
        self.running: list[ast.AST] = []
        self.applier: Function | None = None
        self.called: set[ast.AST] = set()

    def at(self, node: ast.expr | ast.stmt | ast.arg) -> Location:
        if self.file_path == APPLY:
            return Location(APPLY, node.lineno, node.col_offset + 1)
        return self.file.source.at_node(node)

    def run(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        """Run statements; whether they end the block around them, by `return` or `raise`."""
        guards = len(self.guards)
        try:
            return any(self._statement(node, scope) for node in body)
        finally:
            del self.guards[guards:]

    def run_appliers(self) -> None:
        """Run the functions that nobody in the file calls: other files call them."""
        defined = [value for value in self.module.values() if isinstance(value, Defined)]
        called = {
            name.id
            for value in defined
            for name in ast.walk(value.node)
            if isinstance(name, ast.Name) and name.id != getattr(value.node, "name", "")
        }
        before: dict[str, Assignment] = {}
        for value in defined:
            function = value.node
            if not isinstance(function, Function) or takes_self(value):
                continue
            if function in self.called or function.name in called:
                continue
            self.applier = function
            first = len(self.assignments)
            self._call(value, None, self.module)
            for one in self.assignments[first:]:
                if before.setdefault(one.path, one).value != one.value:
                    self._problem(one.at, one.path, "is assigned by another function, too")
            self.applier = None
        for node in self.file.tree.body:
            for inner in ast.walk(node) if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    owner = self.value(inner.value, self.module)
                    if isinstance(owner, Imported) and is_of_transformers(owner.path):
                        path = f"{owner.path}.{inner.attr}"
                        self._problem(self.at(inner), path, "is assigned by a method of a class")

    def _statement(self, node: ast.stmt, scope: Scope) -> bool:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._bind(node.name, Defined(node, _local(scope)), scope)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, self.value(value, scope), scope, node)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self.value(value, scope), scope, node)
            case ast.AugAssign(target=ast.Name(id=name)):
                scope[name] = Unknown(f"what `{name}` is by then", self.at(node))
            case ast.Expr(value=ast.Call() as call):
                self.value(call, scope)
            case ast.If():
                return self._if(node, scope)
            case ast.For():
                self._for(node, scope)
            case ast.While(body=body):
                self._under(self._decided(node.test, scope)[1], body, scope)
            case ast.With(body=body):
                return self.run(body, scope)
            case ast.Try() if any(map(self._is_missing, node.body)):
                return self.run([*node.handlers[0].body, *node.finalbody], scope)
            case ast.Try():
                ends = self.run([*node.body, *node.orelse], scope)
                for handler in node.handlers:
                    # What it binds is bound where the file cannot work.
                    other = Unknown("whether an exception is raised", self.at(node))
                    self._under(other, handler.body, scope.new_child())
                return self.run(node.finalbody, scope) or ends
            case ast.Match():
                subject = Unknown(f"`{ast.unparse(node.subject)}`", self.at(node.subject))
                for case in node.cases:
                    self._under(subject, case.body, scope)
            case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                    self.value(node.value, scope)
                return True
        return False

    def _is_missing(self, node: ast.stmt) -> bool:
        """Whether a statement imports from transformers what the release does not have."""
        module = (node.module or "") if isinstance(node, ast.ImportFrom) and not node.level else ""
        return is_of_transformers(module) and not all(
            has_name(self.root, module, alias.name) for alias in getattr(node, "names", ())
        )

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = alias.name if alias.asname else alias.name.partition(".")[0]
            else:
                path = f"{'.' * node.level}{node.module or ''}"
                if alias.name == "*":
                    self.stars.append(path)
                    continue
                path = f"{path.rstrip('.') if node.module else path}.{alias.name}"
            scope[bound_by(alias)] = Imported(path)

    def _bind(self, name: str, value: Value, scope: Scope) -> None:
        """Bind a name; under a condition that nothing decides, nobody knows to what."""
        scope[name] = self.maybe[-1] if self.maybe and name in scope else value

    def _assign(self, target: ast.expr, value: Value, scope: Scope, node: ast.stmt) -> None:
        match target:
            case ast.Name(id=name):
                self._bind(name, value, scope)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                values = value.value if isinstance(value, Literal) else None
                listed = values if isinstance(values, tuple) else ()
                for number, one in enumerate(targets):
                    unknown = Unknown(f"`{ast.unparse(one)}`", self.at(one))
                    known = listed[number] if len(listed) == len(targets) else unknown
                    self._assign(one, known, scope, node)
            case ast.Attribute(value=base, attr=attr):
                self._set(base, attr, value, scope, node)
            case ast.Subscript(value=base):
                table = self.value(base, scope)
                if isinstance(table, Imported) and is_of_transformers(table.path):
                    self._problem(self.at(node), "", f"changes the table {table.path}")

    def _set(
        self, base: ast.expr, attr: str, value: Value, scope: Scope, node: ast.expr | ast.stmt
    ) -> None:
        """Follow `base.attr = value`."""
        owner, text = self.value(base, scope), ast.unparse(base)
        if isinstance(owner, Imported):
            self._record(Assignment(f"{owner.path}.{attr}", value, self.at(node)))
            return
        function = value.function if isinstance(value, Method) else value
        guard = next((one for one in reversed(self.guards) if one[0] == text), None)
        if guard is not None and isinstance(value, Method) and value.instance == text:
            self._record(Assignment(f"{guard[1]}.{attr}", function, self.at(node), guard[2]))
        elif isinstance(function, Defined | Method) or attr in ("forward", "__init__", "__call__"):
            what = f"assigns to `{text}.{attr}`, whose class only the running program knows"
            self._problem(self.at(node), "", what, self._hint_for(attr, function))

    def _hint_for(self, attr: str, function: Value) -> str:
        """The assignment to the one class of transformers that the file imports."""
        classes = [
            name
            for name, value in self.module.items()
            if isinstance(value, Imported) and re.search(r"\.modeling_\w+\.[A-Z]", value.path)
        ]
        owner = classes[0] if len(classes) == 1 else "CLASS"
        name = getattr(function.node, "name", "") if isinstance(function, Defined) else ""
        return f"if it is that class: {APPLY} '{owner}.{attr} = {name}'" if name else _HINT

    def _record(self, one: Assignment) -> None:
        if not is_of_transformers(one.path):
            if not isinstance(one.value, Literal):
                what = f"changes {one.path}, which is no part of a model of transformers"
                self._problem(one.at, "", what)
        elif isinstance(one.value, Unknown):
            self._problem(one.value.at, one.path, f"depends on {one.value.why}")
        elif one.value == Imported(one.path):
            pass  # It puts back what was there.
        elif self.maybe:
            self._problem(self.maybe[-1].at, one.path, f"depends on {self.maybe[-1].why}")
        else:
            self.assignments.append(one)

    def _problem(self, at: Location, path: str, what: str, hint: str = "") -> None:
        where = f"{_shown(path)} " if path else ""
        arguments = self.applier.args if self.applier is not None else None
        parameters = [*arguments.args, *arguments.kwonlyargs] if arguments else []
        if self.applier is not None and what.split("`")[1:2] in [[one.arg] for one in parameters]:
            call = f"{self.applier.name}({ast.unparse(without_annotations(self.applier))})"
            hint = f"say what it is: {APPLY} '{call}'"
        named = f"say what it assigns: {APPLY} '{_shown(path)} = ...'" if path else _HINT
        problem = Problem(at, "PG810", where + what, hint or named)
        if (path, problem) not in self.problems:
            self.problems.append((path, problem))

    def _if(self, node: ast.If, scope: Scope) -> bool:
        guard = self._guard(node.test, scope)
        if guard is not None:
            is_there, subject = guard[0], guard[1:]
            if is_there:
                self.guards.append(subject)
                self.run(node.body, scope)
                self.guards.pop()
                return self.run(node.orelse, scope) and False
            if self.run(node.body, scope):
                # `if not isinstance(...): continue` is about all that follows.
                self.guards.append(subject)
            return False
        truth, why = self._decided(node.test, scope)
        if truth is not None:
            return self.run(node.body if truth else node.orelse, scope)
        ends = [self._under(why, body, scope) for body in (node.body, node.orelse)]
        returns = any(leaves(body) for body in (node.body, node.orelse))
        if any(ends) and returns:
            # What follows runs only if this did not return.
            self.maybe.append(why)
        return all(ends)

    def _under(self, why: Unknown, body: Sequence[ast.stmt], scope: Scope) -> bool:
        before = len(self.maybe)
        self.maybe.append(why)
        ends = self.run(body, scope)
        del self.maybe[before:]
        return ends

    def _for(self, node: ast.For, scope: Scope) -> None:
        values = self.value(node.iter, scope)
        if isinstance(values, Literal) and isinstance(values.value, tuple):
            for one in values.value:
                self._assign(node.target, one, scope, node)
                self.run(node.body, scope)
            return
        for name in bound_names([node.target]):
            scope[name] = Unknown(f"`{name}`", self.at(node.target))
        self.run(one_subject(node), scope)

    def _guard(self, test: ast.expr, scope: Scope) -> tuple[bool, str, str, str] | None:
        """A test of the class of an object: whether it has to hold, the object, its class."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                guard = self._guard(inner, scope)
                return (not guard[0], *guard[1:]) if guard is not None else None
            case ast.Call(func=ast.Name(id="isinstance"), args=[subject, kind]):
                reach = "instances"
            case ast.Compare(
                left=ast.Call(func=ast.Name(id="type"), args=[subject])
                | ast.Attribute(value=subject, attr="__class__"),
                ops=[ast.Is() | ast.Eq()],
                comparators=[kind],
            ):
                reach = "exactly"
            case _:
                return None
        meant = self.value(kind, scope)
        if isinstance(meant, Imported) and is_of_transformers(meant.path):
            return True, ast.unparse(subject), meant.path, reach
        return None

    def _decided(self, test: ast.expr, scope: Scope) -> tuple[bool | None, Unknown]:
        """Whether a condition holds, where that can be known, and what it depends on."""
        value = self.value(test, scope)
        if isinstance(value, Literal):
            return bool(value.value), Unknown("", self.at(test))
        if isinstance(value, Defined):
            return True, Unknown("", self.at(test))
        why = value.why if isinstance(value, Unknown) else f"`{ast.unparse(test)}`"
        return None, Unknown(why, self.at(test))

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """What an expression is, as far as the file says it."""
        match node:
            case ast.Constant(value=value):
                return Literal(value)
            case ast.Name(id=name):
                if name in scope:
                    return scope[name]
                star = next((one for one in self.stars if exports(one, name, self.root)), None)
                return Imported(f"{star}.{name}") if star else self._unknown(node)
            case ast.Attribute(value=base, attr=attr):
                owner = self.value(base, scope)
                if isinstance(owner, Imported):
                    return Imported(f"{owner.path}.{attr}")
                return self._unknown(node)
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                return Literal(tuple(self.value(one, scope) for one in items))
            case ast.Dict(keys=keys, values=values):
                pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key]
                both = [Literal((self.value(k, scope), self.value(v, scope))) for k, v in pairs]
                return Literal({"items": tuple(both)})
            case ast.Subscript(value=base, slice=index):
                parts = self.value(base, scope), self.value(index, scope)
                match parts:
                    case Imported(path="sys.modules"), Literal(value=str(path)):
                        return Imported(path)
                return self._unknown(node, parts)
            case ast.Lambda():
                return Defined(node, _local(scope))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth, why = self._decided(test, scope)
                return why if truth is None else self.value(body if truth else orelse, scope)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth, why = self._decided(operand, scope)
                return why if truth is None else Literal(not truth)
            case ast.BoolOp(op=op, values=operands):
                return self._either(isinstance(op, ast.Or), operands, scope)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = self.value(left, scope), self.value(right, scope)
                return compare(op, *sides) or self._unknown(node, sides)
            case ast.Call():
                return self._call_of(node, scope)
        return self._unknown(node)

    def _unknown(self, node: ast.expr, parts: Iterable[Value] = ()) -> Unknown:
        unknown = next((part for part in parts if isinstance(part, Unknown)), None)
        return Unknown(unknown.why if unknown else f"`{ast.unparse(node)}`", self.at(node))

    def _either(self, is_or: bool, operands: Sequence[ast.expr], scope: Scope) -> Value:
        undecided: Unknown | None = None
        for operand in operands:
            truth, why = self._decided(operand, scope)
            if truth is is_or:
                return Literal(is_or)
            undecided = why if truth is None and undecided is None else undecided
        return undecided or Literal(not is_or)

    def _call_of(self, node: ast.Call, scope: Scope) -> Value:
        """Follow a call: of `setattr`, of a function of the file, or of something else."""
        name, args = ast.unparse(node.func), node.args
        values = [self.value(arg, scope) for arg in [*args, *(k.value for k in node.keywords)]]
        match name, values:
            case "setattr", [_, Literal(value=str(attr)), value]:
                self._set(args[0], attr, value, scope, node)
            case "setattr", [_, _, _] if not re.search("config|args", ast.unparse(args[0])):
                self._problem(self.at(args[1]), "", f"builds the name `{ast.unparse(args[1])}`")
            case "getattr", [Imported(path=path), Literal(value=str(attr)), *_]:
                there = len(args) == 2 or has_attribute(self.root, path, attr)
                if there is not None:
                    return Imported(f"{path}.{attr}") if there else values[2]
            case "hasattr", [Imported(path=path), Literal(value=str(attr))]:
                there = has_attribute(self.root, path, attr)
                return self._unknown(node) if there is None else Literal(there)
            case "importlib.import_module" | "import_module", [Literal(value=str(path)), *_]:
                return Imported(path)
            case _, [] if isinstance(node.func, ast.Attribute) and node.func.attr == "items":
                table = self.value(node.func.value, scope)
                if isinstance(table, Literal) and isinstance(table.value, dict):
                    return Literal(table.value["items"])
            case _, [function, *_] if name in _METHODS and len(args) == 2:
                return Method(function, ast.unparse(args[1]))
            case _ if isinstance(node.func, ast.Attribute) and node.func.attr == "__get__" and args:
                return Method(self.value(node.func.value, scope), ast.unparse(args[0]))
            case _:
                callee = self.value(node.func, scope)
                if isinstance(callee, Defined) and isinstance(callee.node, Function):
                    self._call(callee, node, scope)
                elif isinstance(callee, Defined) and isinstance(callee.node, ast.ClassDef):
                    return Method(callee, "")
                elif self._hands_over(values):
                    what = f"what `{name}` does with its arguments stands in another file"
                    self._problem(self.at(node), "", what)
        return self._unknown(node)

    def _hands_over(self, values: Sequence[Value]) -> bool:
        """Whether a call gets a function of the file, and says to what of transformers it goes."""
        functions = [one for one in values if isinstance(one, Defined | Method)]
        targets = [one for one in values if is_name(one) or is_of_transformers(path_of(one))]
        return any(map(takes_self, functions)) or bool(functions and targets)

    def _call(self, callee: Defined, call: ast.Call | None, scope: Scope) -> None:
        """Run a function of the file; without `call`, nothing is known of its arguments."""
        function = callee.node
        assert isinstance(function, Function)
        self.called.add(function)
        if function in self.running:
            return
        path, self.file_path = self.file_path, self.file.source.path
        local = Scope(dict(callee.local), *self.module.maps).new_child()
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args]
        for arg in [*parameters, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
            if arg is not None:
                local[arg.arg] = Unknown(f"`{arg.arg}`", self.file.source.at_node(arg))
        if call is not None:
            defaults = zip(parameters[::-1], arguments.defaults[::-1], strict=False)
            named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            for arg, default in [*defaults, *named]:
                local[arg.arg] = self.value(default, self.module) if default else local[arg.arg]
            for arg, value in zip(parameters, call.args, strict=False):
                local[arg.arg] = self.value(value, scope)
            for keyword in call.keywords:
                if keyword.arg is not None and keyword.arg in local:
                    local[keyword.arg] = self.value(keyword.value, scope)
        kept, self.guards = self.guards, []
        maybe = len(self.maybe)
        self.running.append(function)
        self.run(function.body, local)
        self.running.pop()
        del self.maybe[maybe:]
        self.guards, self.file_path = kept, path


def _local(scope: Scope) -> Scope:
    """What is bound around a definition, below the module."""
    return ChainMap(*scope.maps[:-1])


def _shown(path: str) -> str:
    """`LlamaAttention.forward` of its whole path."""
    return re.sub(r"^transformers\..*\.modeling_\w+\.", "", path)
