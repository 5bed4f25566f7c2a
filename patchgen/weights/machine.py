"""Follow constructors and `_init_weights` from their text: which modules and tensors a model has.

    class LlamaMLP(nn.Module):
        def __init__(self, config):
            self.up = nn.Linear(config.size, 8)       an `Object` with the tensors weight and bias
            scale = nn.Parameter(torch.ones(8))
            self.scale = scale                        a `Tensor`

    def _init_weights(self, module):
        if isinstance(module, LlamaMLP):
            init.ones_(module.scale)                  the tensor is filled

Nothing is executed.  A value is a module, a tensor, a class, a function, a constant or `UNKNOWN`,
and each expression has a list of those that it may be.  What a test asks of a configuration is not
known: then both branches are followed, and what one of them fills counts as filled.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from patchgen.facts.bases import CONTAINERS, TENSORS
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment
from patchgen.syntax.trees import decorator_names, list_positional
from patchgen.weights.values import (
    ANY,
    PRETRAINED,
    UNKNOWN,
    Bound,
    Call,
    Class,
    Frame,
    Function,
    FunctionNode,
    Home,
    Kind,
    Object,
    Outside,
    Super,
    Tensor,
    Values,
    decide,
    distinct,
    join,
    list_as,
    list_classes,
    list_elements,
    list_modules,
    list_tensors,
    numbered,
    select,
)

# Deeper than any model; what calls itself ends here.
_DEEPEST = 30
# Statements; the largest models of transformers have a tenth.
_LONGEST = 100_000
_INITIALISING = ("torch.nn.init", "transformers.initialization")
_OF_PARAMETERS = [Outside("torch.nn.ParameterList"), Outside("torch.nn.ParameterDict")]
_ADDING = {"append", "insert", "extend", "update"}
_ADDING |= {"register_parameter", "add_module", "register_module"}
_LISTING = {"values", "items", "children", "modules", "parameters", "buffers"}
_LISTING |= {"named_children", "named_modules", "named_parameters", "named_buffers"}
_REACHING = {"get_submodule", "get_parameter", "get_buffer"}
_OF_STRINGS = {"startswith", "endswith", "find", "lower", "upper", "count"}
_KEEPING = {"to", "float", "half", "bfloat16", "train", "eval", "requires_grad_"}


class TooLongError(Exception):
    """There is more code than is worth following."""


class Machine:
    """Follows the code of a generated text and of the release that `env` reads.

    `resolve` says where a name of a module is defined: `transformers.PreTrainedModel`.
    """

    def __init__(self, env: Environment, resolve: Callable[[str], str]) -> None:
        self.env = env
        self._resolve = resolve
        self.is_filling = False
        self._unsure = 0  # how many tests stand around the statement that are not decided
        self._running: list[ast.AST] = []  # the functions that are being followed
        self._steps = 0
        self._homes: dict[str, Home] = {}
        self._globals: dict[tuple[Home, str], Values] = {}
        self._lines: dict[Kind, list[Kind]] = {}

    # Names

    def read_module(self, module: str) -> Home | None:
        """The home of the names of a module of transformers."""
        if not module.startswith("transformers.") or self.env.path(module) is None:
            return None
        if module not in self._homes:
            try:
                self._homes[module] = Home(module, self.env.index(module, Location(module)))
            except PatchgenError:
                return None
        return self._homes[module]

    def find(self, home: Home, name: str) -> Values:
        """What a global name may be."""
        if (home, name) not in self._globals:
            self._globals[home, name] = [UNKNOWN]  # while it is looked for
            self._globals[home, name] = self._find(home, name)
        return self._globals[home, name]

    def _find(self, home: Home, name: str) -> Values:
        match home.find(name):
            case (ast.ClassDef() as node, above):
                members: dict[str, ast.stmt] = {}
                for statement in node.body:
                    members |= dict.fromkeys(bound_names([statement]), statement)
                return [Class(node, home, above, members)]
            case (ast.FunctionDef() | ast.AsyncFunctionDef() as function, above):
                return [Function(function, home, above)]
            case (ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value), above):
                return self._evaluate(value, Frame(home, above))
        return [self._reach(home.find_import(name) or f"builtins.{name}")]

    def _reach(self, name: str) -> Any:
        """What stands outside: read where it is a class of transformers."""
        module, _, last = name.rpartition(".")
        if module == "transformers":
            module, _, last = self._resolve(name).rpartition(".")
        if module != "transformers.initialization":
            home = self.read_module(module)
            # Functions of the release are not followed.
            if home is not None and isinstance((home.find(last) or [None])[0], ast.ClassDef):
                return self.find(home, last)[0]
        return Outside(name)

    # Classes and objects

    def line_of(self, kind: Kind) -> list[Kind]:
        """A class with all that it inherits from, in the order in which members are found."""
        if kind not in self._lines:
            line = [kind]
            if isinstance(kind, Class) and kind.name != PRETRAINED:
                for expression in kind.node.bases:
                    for base in self._evaluate(expression, Frame(kind.home, kind.above)):
                        if isinstance(base, Kind):
                            inherited = self.line_of(base)
                            line = [each for each in line if each not in inherited] + inherited
            self._lines[kind] = line
        return self._lines[kind]

    def is_model(self, kind: Kind) -> bool:
        """Whether this is a PreTrainedModel, which has an `_init_weights` of its own."""
        return any(each.name == PRETRAINED for each in self.line_of(kind))

    def find_member(self, kind: Kind, name: str, receiver: Values, above: Kind | None) -> Values:
        """What a class has under `name`, bound to `receiver`; of those behind `above`, if given."""
        line = self.line_of(kind)
        start = line.index(above) + 1 if above in line else 0
        for owner in line[start:]:
            if isinstance(owner, Outside):
                if name == "__init__":
                    return [Bound(each, f"{owner.last}.__init__") for each in receiver]
                continue
            member = owner.members.get(name)
            if member is None or (owner.name == PRETRAINED and name != "_init_weights"):
                continue
            if not isinstance(member, FunctionNode):
                value = getattr(member, "value", None)
                frame = Frame(owner.home, owner.above)
                return self._evaluate(value, frame) if value is not None else [UNKNOWN]
            decorators = decorator_names(member)
            bound = [] if "staticmethod" in decorators else receiver
            function = Function(member, owner.home, owner.above, owner, bound or None)
            if "property" in decorators and receiver:
                return self._invoke(function, Call(0))
            return [function]
        return []

    def ask(self, test: ast.expr, before: Sequence[ast.stmt], frame: Frame) -> bool | None:
        """What a test says below some statements; None where that is not known."""
        self._run(before, frame)
        return decide(self._evaluate(test, frame))

    def fills(self, body: Sequence[ast.stmt], module: Object, frame: Frame) -> bool:
        """Whether statements may fill a tensor that a module has, at any depth."""
        tensors = [tensor for tensor, _ in list_tensors(module)]
        for tensor in tensors:
            tensor.is_filled = False
        self.is_filling = True
        self._run(body, frame)
        self.is_filling = False
        return any(tensor.is_filled for tensor in tensors)

    def make(self, kind: Kind, call: Call) -> Object:
        """An object of a class."""
        made = Object(kind, call.line)
        unsure = self._unsure
        self._unsure = 0
        for init in self.find_member(kind, "__init__", [made], None):
            self.apply(init, call)
        self._unsure = unsure
        return made

    def _equip(self, made: Object, name: str, call: Call) -> None:
        """Give an object the tensors that the class `name` of torch makes."""
        has_no_bias = call.keywords.get("bias") == [False]
        for tensor in TENSORS.get(name, "").split():
            is_buffer = tensor.startswith(("running_", "num_batches_"))
            made.slots[tensor] = [Tensor(made.line, is_parameter=not is_buffer)]
            if has_no_bias and tensor.startswith("bias"):
                made.slots[tensor] = [None]
        if name in CONTAINERS:
            modules = call.get(0, "modules")
            has_names = any(isinstance(each, dict) for each in modules)
            if name == "Sequential" and not has_names:
                modules = [numbered(call.args)]
            self._add_elements(made, modules)
        if name == "MultiheadAttention":
            linear = self.make(Outside("torch.nn.Linear"), Call(made.line))
            made.slots["out_proj"] = [linear]

    def _norm_weight(self, made: Object, home: str) -> None:
        """Give an object the tensors from which `weight_norm` computes its weight.

        They are parameters under other names; what fills the weight fills what was computed.
        """
        made.slots["weight"] = [UNKNOWN]
        magnitude = [Tensor(made.line)]
        direction = [Tensor(made.line)]
        if not home.endswith("parametrizations"):
            made.slots |= {"weight_g": magnitude, "weight_v": direction}
            return
        originals = {"original0": magnitude, "original1": direction}
        weight = Object(Outside("torch.nn.utils.parametrize.ParametrizationList"), slots=originals)
        held = Object(Outside("torch.nn.ModuleDict"), slots={"weight": [weight]})
        made.slots["parametrizations"] = [held]

    def _add_elements(self, made: Object | dict[str, Values], given: Values) -> None:
        for elements in given:
            if isinstance(elements, dict):
                for key, values in elements.items():
                    self._store(made, key, values)

    def _store(self, made: Object | dict[str, Values], key: Any, values: Values) -> None:
        """`made.key = values`, or `made[key] = values`."""
        slots = made.slots if isinstance(made, Object) else made
        name = key if isinstance(key, str) else ANY
        known = slots.get(name, [])
        if isinstance(made, Object):
            if self.is_filling:
                self.fill(known)
                return
            # Lists of parameters make parameters of tensors.
            if made.kind in _OF_PARAMETERS:
                values = [one if isinstance(one, Tensor) else Tensor(made.line) for one in values]
        # `self.steps = steps + 1` leaves it a buffer.
        is_buffer = any(isinstance(one, Tensor) and not one.is_parameter for one in known)
        if is_buffer and values == [UNKNOWN]:
            return
        # What it was before, it may still be.
        if self._unsure or ANY in name:
            values = distinct([*known, *values])
        slots[name] = values

    def fill(self, values: Values) -> None:
        """Count tensors as filled, and all that modules have."""
        for value in values:
            if isinstance(value, Tensor):
                value.is_filled = True
            if isinstance(value, dict):
                for inner in value.values():
                    self.fill(inner)
            for module in list_modules(value):
                for inner in module.slots.values():
                    self.fill([each for each in inner if isinstance(each, Tensor)])

    # Statements

    def _run(self, body: Sequence[ast.stmt], frame: Frame) -> bool:
        """Follow statements; gives whether nothing behind them is reached."""
        return any(self._run_one(statement, frame) for statement in body)

    def _run_one(self, node: ast.stmt, frame: Frame) -> bool:
        self._steps += 1
        if self._steps > _LONGEST:
            raise TooLongError
        match node:
            case ast.Expr(value=value):
                self._evaluate(value, frame)
            case ast.Assign(targets=targets, value=value):
                values = self._evaluate(value, frame)
                for target in targets:
                    self._bind(target, values, frame)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self._evaluate(value, frame), frame)
            case ast.AugAssign(target=target, value=value):
                added = ast.BinOp(target, node.op, value)
                self._bind(target, self._evaluate(added, frame), frame)
            case ast.Return(value=value):
                frame.returned += self._evaluate(value, frame) if value else [None]
                return True
            case ast.Raise() | ast.Continue() | ast.Break():
                return True
            case ast.If(test=test, body=body, orelse=orelse):
                decided = decide(self._evaluate(test, frame))
                if decided is None:
                    return self._run_either([body, orelse], frame)
                return self._run(body if decided else orelse, frame)
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                for element in list_elements(self._evaluate(iterated, frame)):
                    self._bind(target, element, frame)
                    self._run(body, frame)
                return self._run(orelse, frame)
            case ast.While(body=body):
                self._run_either([body, []], frame)
            case ast.With(body=body):
                return self._run(body, frame)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                is_over = self._run([*body, *orelse], frame)
                self._run_either([[], *(handler.body for handler in handlers)], frame)
                return self._run(final, frame) or is_over
            case ast.Match(cases=cases):
                return self._run_either([[], *(each.body for each in cases)], frame)
            case ast.FunctionDef(name=name):
                frame.names[name] = [self._close(node, frame)]
            case ast.Delete(targets=[ast.Attribute(value=owner, attr=name)]):
                for made in self._evaluate(owner, frame):
                    if isinstance(made, Object) and not self._unsure:
                        made.slots.pop(name, None)
        return False

    def _run_either(self, branches: Sequence[Sequence[ast.stmt]], frame: Frame) -> bool:
        """Follow each branch; behind them, a name may be what it is at the end of any."""
        before = frame.names
        ends = []
        self._unsure += 1
        for branch in branches:
            frame.names = dict(before)
            if not self._run(branch, frame):
                ends.append(frame.names)
        self._unsure -= 1
        frame.names = dict(before)
        for name in set[str]().union(*ends):
            values = join(end.get(name, []) for end in ends)
            frame.names[name] = distinct(values)
        return not ends

    def _bind(self, target: ast.expr, values: Values, frame: Frame) -> None:
        match target:
            case ast.Name(id=name):
                frame.names[name] = values
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                elements = list_elements(values)
                for number, inner in enumerate(targets):
                    is_known = len(elements) == len(targets)
                    self._bind(inner, elements[number if is_known else 0], frame)
            case ast.Attribute(value=owner, attr=name):
                for made in self._evaluate(owner, frame):
                    if isinstance(made, Object):
                        self._store(made, name, values)
                    elif self.is_filling:
                        self.fill([made])
            case ast.Subscript(value=owner, slice=index):
                key = self._evaluate(index, frame)[0]
                for made in self._evaluate(owner, frame):
                    if isinstance(made, Object | dict):
                        self._store(made, key, values)
                    elif self.is_filling:
                        self.fill([made])

    # Expressions

    def _evaluate(self, node: ast.expr, frame: Frame) -> Values:
        match node:
            case ast.Constant(value=value):
                return [value]
            case ast.Name(id=name):
                return frame.names[name] if name in frame.names else self.find(frame.home, name)
            case ast.Attribute(value=value, attr=name):
                owners = self._evaluate(value, frame)
                return distinct(join(self._look_up(owner, name) for owner in owners))
            case ast.Call():
                return self._call(node, frame)
            case ast.NamedExpr(target=target, value=value):
                values = self._evaluate(value, frame)
                self._bind(target, values, frame)
                return values
            case ast.IfExp(test=test, body=body, orelse=orelse):
                decided = decide(self._evaluate(test, frame))
                if decided is not None:
                    return self._evaluate(body if decided else orelse, frame)
                return distinct(self._evaluate(body, frame) + self._evaluate(orelse, frame))
            case ast.BoolOp(op=operator, values=operands):
                return self._evaluate_either(isinstance(operator, ast.Or), operands, frame)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                decided = decide(self._evaluate(operand, frame))
                return [UNKNOWN if decided is None else not decided]
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compare(left, operator, right, frame)
            case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
                listed = [self._evaluate(item, frame) for item in items]
                return [numbered(listed)]
            case ast.Dict(keys=keys, values=items):
                table: dict[str, Values] = {}
                for key, item in zip(keys, items, strict=True):
                    name = self._evaluate(key, frame)[0] if key else ANY
                    self._store(table, name, self._evaluate(item, frame))
                return [table]
            case (
                ast.ListComp(elt=item, generators=loops)
                | ast.GeneratorExp(elt=item, generators=loops)
                | ast.DictComp(value=item, generators=loops)
            ):
                return [{ANY: self._repeat(item, loops, frame)}]
            case ast.Subscript(value=value, slice=index):
                owners = self._evaluate(value, frame)
                keys = [] if isinstance(index, ast.Slice) else self._evaluate(index, frame)
                return distinct(join(select(owner, keys) for owner in owners))
            case ast.BinOp(left=left, right=right):
                both = [*self._evaluate(left, frame), *self._evaluate(right, frame)]
                lists = [each for each in both if isinstance(each, dict)]
                return [{ANY: join(list_elements(lists))}] if lists else [UNKNOWN]
            case ast.JoinedStr(values=pieces):
                texts = [each.value if isinstance(each, ast.Constant) else ANY for each in pieces]
                return ["".join(map(str, texts))]
            case ast.Lambda():
                return [self._close(node, frame)]
            case ast.Starred(value=value):
                return self._evaluate(value, frame)
        return [UNKNOWN]

    def _close(self, node: ast.FunctionDef | ast.Lambda, frame: Frame) -> Function:
        return Function(node, frame.home, frame.above, frame.owner, None, frame.names)

    def _repeat(self, item: ast.expr, loops: list[ast.comprehension], frame: Frame) -> Values:
        """What a comprehension makes; of names that it binds, the frame keeps the last value."""
        loop, *inner = loops
        made: Values = []
        for element in list_elements(self._evaluate(loop.iter, frame)):
            self._bind(loop.target, element, frame)
            if any(decide(self._evaluate(test, frame)) is False for test in loop.ifs):
                continue
            if inner:
                made += self._repeat(item, inner, frame)
            else:
                made += self._evaluate(item, frame)
        return made

    def _evaluate_either(self, ends_at: bool, operands: Sequence[ast.expr], frame: Frame) -> Values:
        """`a or b`, which ends at what is true, or `a and b`."""
        kept: Values = []
        for operand in operands:
            values = self._evaluate(operand, frame)
            decided = decide(values)
            if decided is ends_at:
                return [*kept, *values]
            kept = kept if decided is not None else [*kept, UNKNOWN]
        return [*kept, *values]

    def _compare(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, frame: Frame
    ) -> Values:
        """Whether constants are equal, or one is in another; classes and None are constants too."""
        others = self._evaluate(right, frame)
        pairs = itertools.product(self._evaluate(left, frame), others)
        match operator:
            case ast.In() | ast.NotIn():
                answers = [_is_in(one, other) for one, other in pairs]
            case ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq():
                answers = [_is_equal(one, other) for one, other in pairs]
            case _:  # which of both is more
                return [UNKNOWN for _ in pairs]
        if not isinstance(operator, ast.NotIn | ast.IsNot | ast.NotEq):
            return answers
        return [answer if answer is UNKNOWN else not answer for answer in answers]

    def _look_up(self, owner: Any, name: str) -> Values:
        """What `owner.name` may be."""
        match owner:
            case Object():
                if name == "__class__":
                    return [owner.kind]
                found = owner.slots.get(name) or self.find_member(owner.kind, name, [owner], None)
                return found or [Bound(owner, name)]
            case Super(receiver=receiver, owner=above):
                found = []
                for each in receiver:
                    if isinstance(each, Object):
                        found += self.find_member(each.kind, name, receiver, above)
                return found or [Bound(receiver[0], name)]
            case Class() | Outside() if name == "__name__":
                return [owner.name.rpartition(".")[2]]
            case Class():
                found = self.find_member(owner, name, [], None)
                is_maker = name in ("_from_config", "from_config", "from_pretrained")
                return found or [owner if is_maker else Bound(owner, name)]
            case Outside():
                return [self._reach(f"{owner.name}.{name}")]
            case Tensor():
                return [owner]  # `.data`, and what else has its memory
            case str() | dict():
                return [Bound(owner, name)]
        return [UNKNOWN]

    # Calls

    def _call(self, node: ast.Call, frame: Frame) -> Values:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "super":
            if not frame.receiver or not frame.owner:
                return [UNKNOWN]
            return [Super(frame.receiver, frame.owner)]
        args = [self._evaluate(argument, frame) for argument in node.args]
        is_open = any(isinstance(argument, ast.Starred) for argument in node.args)
        keywords: dict[str, Values] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                is_open = True
            keywords[keyword.arg or ""] = self._evaluate(keyword.value, frame)
        call = Call(frame.line(node), node, args, keywords, is_open)
        callees = self._evaluate(function, frame)
        values = [self.apply(callee, call) for callee in callees]
        return distinct(join(values))

    def apply(self, callee: Any, call: Call) -> Values:
        match callee:
            case Function():
                return self._invoke(callee, call)
            case Class():
                return [self.make(callee, call)]
            case Outside():
                return self._call_outside(callee, call)
            case Bound(owner=owner, name=name):
                return self._call_method(owner, name, call)
            # `module.weight.data.normal_()`
            case Tensor():
                called = call.node.func if call.node else None
                if self.is_filling and isinstance(called, ast.Attribute) and called.attr[-1] == "_":
                    callee.is_filled = True
                return [callee]
        return self._touch(call)

    def _touch(self, call: Call) -> Values:
        """Count as filled what is given to a function that nothing is known of."""
        if self.is_filling:
            for values in (*call.args, *call.keywords.values()):
                self.fill(values)
        return [UNKNOWN]

    def _invoke(self, function: Function, call: Call) -> Values:
        node = function.node
        # What calls itself is followed once more.
        if len(self._running) > _DEEPEST or self._running.count(node) > 1:
            return [UNKNOWN]
        frame = Frame(function.home, function.above, dict(function.names), function.owner)
        arguments = [*call.args]
        if function.receiver:
            arguments.insert(0, function.receiver)
        parameters = list_positional(node.args)
        required = len(parameters) - len(node.args.defaults)
        defaults = [*[None] * required, *node.args.defaults]
        pairs = list(zip(parameters, defaults, strict=True))
        pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        for number, (parameter, default) in enumerate(pairs):
            values: Values = [UNKNOWN]
            if number < min(len(arguments), len(parameters)):
                values = arguments[number]
            elif parameter.arg in call.keywords:
                values = call.keywords[parameter.arg]
            elif default is not None and not call.is_open:
                values = self._evaluate(default, Frame(function.home, function.above))
            frame.names[parameter.arg] = values
        for rest in (node.args.vararg, node.args.kwarg):
            if rest is not None:
                frame.names[rest.arg] = [UNKNOWN]
        frame.receiver = frame.names[parameters[0].arg] if parameters else None
        self._running.append(node)
        if isinstance(node, ast.Lambda):
            frame.returned = self._evaluate(node.body, frame)
        elif not self._run(node.body, frame):
            frame.returned.append(None)
        self._running.pop()
        return distinct(frame.returned)

    def _call_outside(self, callee: Outside, call: Call) -> Values:
        first = call.get(0)
        last = callee.last
        match callee.name.rpartition(".")[0], last:
            case "builtins", "isinstance":
                return [self._is_instance(each, call.get(1)) for each in first]
            case "builtins", "hasattr":
                (name,) = call.get(1)[:1] or [UNKNOWN]
                return [self._has(each, name) for each in first]
            case "builtins", "getattr":
                (name,) = call.get(1)[:1] or [UNKNOWN]
                found = []
                for owner in first:
                    is_there = self._has(owner, name)
                    if is_there is not False:
                        found += self._look_up(owner, str(name))
                    if is_there is not True:
                        found += call.get(2)
                return found
            case "builtins", "setattr":
                for owner in first:
                    for name in call.get(1):
                        if isinstance(owner, Object):
                            self._store(owner, name, call.get(2))
            case "builtins", "type":
                return [each.kind if isinstance(each, Object) else UNKNOWN for each in first]
            case "builtins", "enumerate":
                pairs = [numbered([[UNKNOWN], each]) for each in list_elements(first)]
                return [numbered([[pair] for pair in pairs])]
            case "builtins", "zip":
                columns = [list_elements(each) for each in call.args]
                return [numbered([[numbered(row)] for row in zip(*columns, strict=False)])]
            case "builtins", "list" | "tuple" | "reversed" | "sorted" | "iter" | "set" | "dict":
                return first or [{}]
            case "builtins", _:
                return [UNKNOWN]
            case ("copy", "deepcopy" | "copy"):
                return first
            case _, "Parameter":
                return [Tensor(call.line, call.node)]
            case _, "Buffer":
                return [_make_buffer(call, 0)]
            case home, "weight_norm" if home.startswith("torch.nn.utils"):
                for module in first:
                    if isinstance(module, Object):
                        self._norm_weight(module, home)
                return first
            case home, _ if home in _INITIALISING:
                if self.is_filling and last.endswith("_"):
                    self.fill(first or join(call.keywords.values()))
            case home, _ if home.startswith("torch.nn") and last[0].isupper():
                return [self.make(callee, call)]
            case home, _ if home.partition(".")[0] in ("torch", "math"):
                return [each for each in first if isinstance(each, Tensor)] or [UNKNOWN]
            case _:
                return self._touch(call)
        return [UNKNOWN]

    def _is_instance(self, value: Any, classes: Values) -> Any:
        if value is UNKNOWN or isinstance(value, Bound):
            return UNKNOWN
        asked = join(map(list_classes, classes))
        if isinstance(value, Tensor):
            return value.is_parameter if Outside("torch.nn.Parameter") in asked else UNKNOWN
        if not isinstance(value, Object):
            return False
        line = self.line_of(value.kind)
        names = {"Module"} | {each.last for each in line if isinstance(each, Outside)}
        answer: Any = False
        for kind in asked:
            if kind in line or (isinstance(kind, Outside) and kind.last in names):
                return True
            # A base of several classes of torch, or a class that is not known.
            if not isinstance(kind, Kind) or (isinstance(kind, Outside) and kind.last[0] == "_"):
                answer = UNKNOWN
        return answer

    def _has(self, value: Any, name: Any) -> Any:
        """Whether a module has something under `name`."""
        # The torch that is needed has what older ones lack.
        if isinstance(value, Outside) and value.name.startswith("torch."):
            return True
        if not isinstance(value, Object) or not isinstance(name, str):
            return UNKNOWN
        if name in value.slots or self.find_member(value.kind, name, [], None):
            return True
        return UNKNOWN if self._is_opaque(value.kind) else False

    def _call_method(self, owner: Any, name: str, call: Call) -> Values:
        """A method of a module, a list, a dictionary or a string."""
        match owner:
            case str():
                given = [values[0] for values in call.args]
                is_known = name in _OF_STRINGS and all(isinstance(each, str) for each in given)
                return [getattr(owner, name)(*given)] if is_known else [UNKNOWN]
            case Object() if name.endswith(".__init__"):
                self._equip(owner, name.split(".")[-2], call)
            case Object() | dict() if name in _ADDING:
                self._add(owner, name, call)
            case Object() | dict() if name in _LISTING:
                return [list_as(name, owner)]
            case Object() if name in _REACHING:
                return _reach_inside(owner, call.get(0, "target"))
            case Object() if name == "register_buffer":
                self._register_buffer(owner, call)
            case Object() if name == "apply":
                for module in list_modules(owner):
                    for function in call.get(0, "fn"):
                        self.apply(function, Call(call.line, None, [[module]]))
            case Object() if name in _KEEPING:
                return [owner]
            case Object(kind=kind):
                if self.is_filling and (self._is_opaque(kind) or "reset_parameters" in name):
                    self.fill([owner])
                return [UNKNOWN]
            case _:
                return self._touch(call)
        return [None]

    def _add(self, owner: Object | dict[str, Values], name: str, call: Call) -> None:
        """Add to a list or a dictionary, or to what a module has."""
        last = call.args[-1] if call.args else []
        if name in ("append", "insert"):
            self._store(owner, ANY, last)
        elif name == "extend":
            self._store(owner, ANY, join(list_elements(last)))
        elif name == "update":
            self._add_elements(owner, last)
        else:
            values = call.keywords.get("param") or call.keywords.get("module") or last
            for key in call.get(0, "name"):
                self._store(owner, key, values)

    def _register_buffer(self, owner: Object, call: Call) -> None:
        is_none = call.get(1, "tensor") == [None]
        for name in call.get(0, "name"):
            self._store(owner, name, [None if is_none else _make_buffer(call, 1)])

    def _is_opaque(self, kind: Kind) -> bool:
        """Whether not all that a class has is known."""
        line = self.line_of(kind)
        return any(isinstance(c, Outside) and not c.name.startswith("torch.nn.") for c in line)


def _is_in(one: Any, other: Any) -> Any:
    """Whether a constant is in a text, or among the keys of a dictionary."""
    if isinstance(one, str) and isinstance(other, str):
        return one in other
    if isinstance(other, dict):
        keys = list(itertools.chain.from_iterable(list_elements([other])))
        if UNKNOWN not in [one, *keys]:
            return one in keys
    return UNKNOWN


def _is_equal(one: Any, other: Any) -> Any:
    if UNKNOWN in (one, other) or isinstance(one, Bound):
        return UNKNOWN
    return one == other


def _reach_inside(owner: Object, paths: Values) -> Values:
    """What stands in a module at `layers.0.weight`, or at any path that is not known."""
    reached: Values = []
    for path in paths:
        values: Values = [owner]
        for step in str(path).split("."):
            values = join(select(each, [step]) for each in values)
        reached += values
    return reached


def _make_buffer(call: Call, position: int) -> Tensor:
    """The buffer of a call whose argument at `position` is a tensor."""
    is_saved = False not in call.get(position + 1, "persistent")
    given = call.node.args if call.node else []
    value = given[position] if len(given) > position else None
    return Tensor(call.line, value, is_parameter=False, is_saved=is_saved)
