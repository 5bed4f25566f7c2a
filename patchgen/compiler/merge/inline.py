"""Write a parent's method, statement by statement, where the child calls it.

That is possible where the call is a statement of its own, or the last `return`, and where it
changes nothing: no name that both methods use, no early return, no code that inspects its frame.
Otherwise the method is kept under a private name (`supers`).

    # the parent's method: def __init__(self, config, scale=1): self.size = config.size * scale
    def __init__(self, config):         def __init__(self, config):
        super().__init__(config)            scale = 1
        self.extra = 1                      self.size = config.size * scale
                                            self.extra = 1
"""

from __future__ import annotations

import ast
import textwrap
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.compiler.merge.members import Statement, is_placeholder
from patchgen.compiler.merge.text import (
    Splice,
    find_colon,
    indent_of,
    owns_lines,
    reindent,
    suite_text,
)
from patchgen.compiler.merge.uses import SEES_LOCALS, SuperUse, first_parameter
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import (
    FunctionNode,
    ScopeNode,
    bound_names,
    local_names,
    names_in,
    own_nodes,
)
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.text import read_tokens
from patchgen.syntax.trees import (
    Function,
    decorator_names,
    list_arguments,
    list_positional,
    walk,
    walk_all,
)

# As an argument, each of these does more than give a value: it binds a name, or it suspends.
_EFFECTS_ON_NAMES = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Site:
    """A call that is the statement `number` of `method`; `returned`: `return` with the call."""

    method: Function
    number: int
    returned: bool
    call: ast.Call

    @property
    def statement(self) -> ast.stmt:
        return self.method.body[self.number]

    @property
    def rest(self) -> list[ast.stmt]:
        """The statements that run after the call."""
        return [] if self.returned else self.method.body[self.number + 1 :]


# How every parameter of the parent's method gets its value: the parameters that the caller has
# under the same name, the values of others in order, and the `**kwargs` that is passed on, or "".
Binding = tuple[frozenset[str], dict[str, ast.expr], str]


def find_call_site(use: SuperUse, child: Statement) -> Site | None:
    """The statement at the top of the method's body that is nothing but the call of `use`."""
    method = child.node
    code = child.fragment
    # A method that calls another one of the parent's runs statements of two methods.
    if use.call is None or not isinstance(method, Function) or method.name != use.name:
        return None
    # Its arguments may ask for what is inherited, too.
    if any("super" in names_in([argument]) for argument in list_arguments(use.call)):
        return None
    for number, statement in enumerate(method.body):
        if not isinstance(statement, ast.Expr | ast.Return) or statement.value is not use.call:
            continue
        is_returned = isinstance(statement, ast.Return)
        # What stands below a `return` never runs, but would below the inlined statements.
        if is_returned and number != len(method.body) - 1:
            return None
        # `super().__init__(); self.x = 1` shares its line, and cannot be replaced by lines.
        if not owns_lines(code, method.body, number, number + 1):
            return None
        return Site(method, number, is_returned, use.call)
    return None


def inline(site: Site, use: SuperUse, child: Statement, parent: Statement) -> Splice | None:
    """The call, replaced by the body of `parent`; None where that is not exact."""
    function = parent.node
    if not isinstance(function, ast.FunctionDef):
        return None
    binding = _bind_safely(site, use, function)
    if binding is None:
        return None
    body, above = _read_body(function, parent.fragment)
    # `return None` at the end: the child's statements follow.
    if body and isinstance(body[-1], ast.Return) and not site.returned:
        body = body[:-1]
    code = child.fragment
    statement = site.statement
    first = first_line(statement)
    last = statement.end_lineno or 0
    indent = indent_of(code.lines[first - 1])

    _, given, _ = binding
    values = {name: _write_argument(value, site.call, code) for name, value in given.items()}
    assigned = "".join(f"{indent}{name} = {value}\n" for name, value in values.items())
    # A comment beside or inside the call gets a line of its own.
    comments = [text for text in _read_comments(code, statement) if text not in assigned]
    text = "".join(f"{indent}{comment}\n" for comment in comments) + assigned
    if body:
        written, old = suite_text(parent.fragment, body, above)
        text += reindent(written, old, indent)
    # The method needs a statement.
    elif not values and len(site.method.body) == 1:
        text += f"{indent}pass\n"
    return Splice(*code.line_span(first, last), text)


def _read_body(function: ast.FunctionDef, code: Fragment) -> tuple[list[ast.stmt], int]:
    """The statements below the docstring, none where all are placeholders; the line above them."""
    body = function.body
    above = find_colon(code, function.lineno, code.column(function.lineno, function.col_offset))[0]
    if ast.get_docstring(function, clean=False) is not None:
        above, body = body[0].end_lineno or 0, body[1:]
    return [] if all(map(is_placeholder, body)) else body, above


def _read_comments(code: Fragment, statement: ast.stmt) -> list[str]:
    """The comments on the lines of a statement that owns them."""
    lines = code.lines[first_line(statement) - 1 : statement.end_lineno]
    if not any("#" in line for line in lines):
        return []
    text = textwrap.dedent("".join(lines))
    tokens = read_tokens(text)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def _write_argument(value: ast.expr, call: ast.Call, code: Fragment) -> str:
    """The text of an argument; a default comes from the parent, where only its value is known."""
    if not any(node is value for node in walk(call)):
        return ast.unparse(value)
    text = code.source(value)
    # Outside the brackets of the call, an expression ends with its line.
    return f"({text})" if "\n" in text else text


# Whether it is exact


def _bind_safely(site: Site, use: SuperUse, function: ast.FunctionDef) -> Binding | None:
    """Bind the call to `function`, the parent's method; None where inlining it is not exact."""
    method = site.method
    # A class method is given the class, and a static method nothing at all.
    if decorator_names(method) & {"staticmethod", "classmethod"} or method.name == "__new__":
        return None
    receiver = first_parameter(function)
    # The inlined code names the object as the parent does.
    if function.decorator_list or receiver is None or receiver != first_parameter(method):
        return None
    if not _is_plain(function, site.returned) or _sees_locals(method):
        return None
    # `Parent.forward(self, x)` gives the object as the first argument.
    binding = _bind(site.call, function, method, 1 if use.by_name else 0)
    if binding is None or not _are_names_separate(site, function, binding, receiver):
        return None
    return binding


def _is_plain(function: ast.FunctionDef, returned: bool) -> bool:
    """Whether `function` is no generator, inspects no frame, and returns only where it may.

    Where more follows the call, the only `return` may be the last statement, and return None.
    """
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in walk(function)):
        return False
    if _sees_locals(function):
        return False
    returns = [node for node in own_nodes(function.body) if isinstance(node, ast.Return)]
    if returned or not returns:
        return True
    # An early return would skip the rest of the child's method.
    if returns != [function.body[-1]]:
        return False
    value = returns[0].value
    return value is None or isinstance(value, ast.Constant) and value.value is None


def _sees_locals(function: FunctionNode) -> bool:
    """Whether code of `function` may read or bind names that its text does not show."""
    return any(
        isinstance(node, ast.Global | ast.Nonlocal)
        or (isinstance(node, ast.Name) and node.id in SEES_LOCALS)
        for node in walk(function)
    )


def _are_names_separate(
    site: Site, function: ast.FunctionDef, binding: Binding, receiver: str
) -> bool:
    """Whether no name of the parent's method changes what a name of the child's means."""
    method = site.method
    child_locals = local_names(method)
    parent_locals = local_names(function)
    mentioned = names_in([method]) - {method.name}
    # The names that run after the call, or may.
    later = names_in([*site.rest, *_find_scopes(method.body)])
    # Bound again, `self` would be another object below.
    if receiver in {*bound_names(function.body), *bound_names(method.body)}:
        return False
    # A global of the parent would become a local of the child.
    if (names_in(function.body) - parent_locals) & child_locals:
        return False
    passed, values, keywords = binding
    if keywords and not _is_only_passed_on(site, keywords):
        return False
    shared = {*passed, keywords} - {""}
    assigned = list(values)
    # These locals are new in the child, which must not have the names yet.
    fresh = parent_locals - shared - {receiver, *assigned}
    if not shared <= child_locals or fresh & mentioned:
        return False
    if not all(_may_share(name, site, function, later) for name in shared):
        return False
    for number, name in enumerate(assigned):
        # A later assignment must not read the name after this one has changed it.
        further = names_in([*values.values()][number + 1 :])
        if name in mentioned and (name not in child_locals or name in later | further):
            return False
    return True


def _may_share(name: str, site: Site, function: ast.FunctionDef, later: frozenset[str]) -> bool:
    """Whether both methods may use one variable for a parameter that is passed on."""
    # What the parent binds, the child would read after the call.
    if name in later and name in bound_names(function.body):
        return False
    # A function inside the parent's method would see the child bind the name again.
    in_nested = name in names_in(_find_scopes(function.body))
    return not (in_nested and name in bound_names(site.rest))


def _is_only_passed_on(site: Site, keywords: str) -> bool:
    """Whether the child has no other reference to its dictionary of keywords.

    Python hands the parent a copy; inlined, the parent's code changes the child's dictionary.
    `kwargs.pop("x")` and `kwargs["x"]` keep no reference.
    """
    if keywords in names_in([*site.rest, *_find_scopes(site.method.body)]):
        return False
    for node in walk_all(site.method.body[: site.number]):
        is_look = isinstance(node, ast.Attribute | ast.Subscript)
        for child in ast.iter_child_nodes(node):
            is_looked_into = is_look and getattr(node, "value", None) is child
            if isinstance(child, ast.Name) and child.id == keywords and not is_looked_into:
                return False
    return True


def _find_scopes(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """The nested scopes in `body`, whose code may run later."""
    scopes = ScopeNode | ast.GeneratorExp
    return [node for node in walk_all(body) if isinstance(node, scopes)]


# Arguments


def _bind(call: ast.Call, function: FunctionNode, caller: Function, skip: int) -> Binding | None:
    """Bind the arguments behind the first `skip`; None where assignments cannot express it."""
    signature = function.args
    for argument in list_arguments(call):
        if isinstance(argument, ast.Starred):
            return None
        if any(isinstance(node, _EFFECTS_ON_NAMES) for node in walk(argument)):
            return None
    # The object is bound by the method that calls, not by an argument.
    _, *positional = [arg.arg for arg in list_positional(signature)]
    by_name = {arg.arg for arg in [*signature.args, *signature.kwonlyargs]}
    arguments = call.args[skip:]
    if signature.vararg or len(arguments) > len(positional):
        return None
    values = dict(zip(positional, arguments, strict=False))
    starred: list[ast.expr] = []
    for keyword in call.keywords:
        if keyword.arg is None:
            starred.append(keyword.value)
        # Given twice, or under a name that can only be given by position.
        elif keyword.arg in values or keyword.arg not in by_name:
            return None
        else:
            values[keyword.arg] = keyword.value
    every = [*positional, *(arg.arg for arg in signature.kwonlyargs)]
    kwargs = signature.kwarg.arg if signature.kwarg else None
    if starred and not _passes_on_its_own(starred, kwargs, every, values, caller):
        return None
    defaults = _read_defaults(signature)
    for name in every:
        if name not in values:
            if not _is_constant(defaults.get(name)):
                return None
            values[name] = defaults[name]
    # Nothing is left over for `**kwargs`.
    if kwargs and not starred:
        values[kwargs] = ast.Dict([], [])
    # `super().forward(x)` for a parameter `x`: the variable is there already.
    passed = {n for n, value in values.items() if isinstance(value, ast.Name) and value.id == n}
    bound = {name: value for name, value in values.items() if name not in passed}
    return frozenset(passed), bound, kwargs if starred and kwargs else ""


def _passes_on_its_own(
    starred: Sequence[ast.expr],
    kwargs: str | None,
    every: Sequence[str],
    values: dict[str, ast.expr],
    caller: Function,
) -> bool:
    """Whether `**kwargs` of the call is the caller's own dictionary, under the parent's name.

    Another dictionary could hold the parameters too.  So could this one, where a parameter is not
    the caller's own: then Python would raise TypeError.
    """
    named = {parameter.arg for parameter in [*caller.args.args, *caller.args.kwonlyargs]}
    match starred, caller.args.kwarg:
        case [ast.Name(id=name)], ast.arg(arg=own_name):
            is_own = name == own_name == kwargs
            return is_own and set(every) <= named and set(every) <= set(values)
    return False


def _read_defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [arg.arg for arg in list_positional(arguments)]
    # Defaults belong to the last parameters: `def f(a, b=1)` has one default for two parameters.
    start = len(positional) - len(arguments.defaults)
    with_default = positional[start:]
    defaults = dict(zip(with_default, arguments.defaults, strict=True))
    for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            defaults[arg.arg] = value
    return defaults


def _is_constant(node: ast.expr | None) -> bool:
    """Whether a default has the same value wherever it is evaluated.

    Python evaluates a default once, in the scope of the class body.
    """
    # `-1` is an operator and a constant for `ast`.
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)
