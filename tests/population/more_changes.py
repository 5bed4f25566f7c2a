"""More kinds of changes: of what is nested, of functions, of names throughout, and of several places."""

from __future__ import annotations

import ast
import re

from tests.population.changes import (
    Function,
    Text,
    add_parameter,
    assigned,
    call_somewhere,
    code_of,
    first_line,
    indent,
    names_of,
)

SIMPLE = ast.Assign | ast.AugAssign | ast.Expr


def is_plain(node: ast.stmt) -> bool:
    """Whether a statement is simple, and not a docstring."""
    return isinstance(node, SIMPLE) and not isinstance(node.value, ast.Constant)


def functions(text: Text) -> list[Function]:
    """The functions at the top, longer than a line."""
    return [n for n in text.tree.body if isinstance(n, Function) and len(code_of(n)) > 1]


def suites(method: Function) -> list[list[ast.stmt]]:
    """The suites inside a method that hold more than one statement."""
    inner = [n for s in code_of(method) for n in ast.walk(s) if isinstance(n, ast.stmt)]
    found = [getattr(n, f, None) for n in inner for f in ("body", "orelse")]
    return [s for s in found if isinstance(s, list) and len(s) > 1]


def nested(text: Text) -> tuple[Function, ast.stmt]:
    """A simple statement inside a loop or a condition, with its method."""
    pairs = [(m, s) for _, m in text.methods(2) for suite in suites(m) for s in suite]
    return text.random.choice([(m, s) for m, s in pairs if is_plain(s)])


def put_statement_deep(text: Text) -> Text:
    _, statement = nested(text)
    more = text.random.choice(["torch.cuda.synchronize()", "# ours\ndepth = 1 + 2", "seen = []"])
    line = statement.end_lineno if text.random.random() < 0.5 else first_line(statement) - 1
    return text.insert(line, indent(more, statement.col_offset))


def remove_statement_deep(text: Text) -> Text:
    _, statement = nested(text)
    return text.remove(statement)


def swap_statements(text: Text) -> Text:
    bodies = [code_of(m) for _, m in text.methods(4)]
    pairs = [
        (a, b)
        for body in bodies
        for a, b in zip(body, body[1:], strict=False)
        if is_plain(a) and is_plain(b) and text.source(a) != text.source(b)
    ]
    first, second = text.random.choice(pairs)
    return text.replace((first, text.source(second)), (second, text.source(first)))


def wrap_several(text: Text) -> Text:
    """One to three statements inside `with` or `try`."""
    body = code_of(text.method(4)[1])
    start = text.random.randrange(len(body) - 1)
    run = [s for s in body[start : start + text.random.randint(1, 3)] if not returns(s)]
    if not run:
        raise LookupError("it returns")
    lines = text.text.split("\n")
    first, last = first_line(run[0]) - 1, run[-1].end_lineno
    margin = " " * run[0].col_offset
    inner = [f"    {line}" if line.strip() else line for line in lines[first:last]]
    if text.random.random() < 0.5:
        lines[first:last] = [f"{margin}with torch.autocast('cpu', enabled=False):", *inner]
    else:
        end = [f"{margin}except ValueError as error:", f"{margin}    raise RuntimeError from error"]
        lines[first:last] = [f"{margin}try:", *inner, *end]
    return text.of("\n".join(lines))


def returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return | ast.Yield) for n in ast.walk(node))


def add_branch(text: Text) -> Text:
    nodes = [
        n
        for _, m in text.methods(2)
        for s in code_of(m)
        for n in ast.walk(s)
        if isinstance(n, ast.If) and not n.orelse and n.body[0].lineno > n.lineno
    ]
    node = text.random.choice(nodes)
    head = text.random.choice(["else:", "elif self.training:"])
    margin = " " * node.col_offset
    lines = text.text.split("\n")
    if re.match(r"\s*(el)?if\b", lines[node.lineno - 1]) is None:
        raise LookupError("it is an expression")
    return text.insert(node.end_lineno, f"{margin}{head}\n{margin}    print('other')")


def change_test(text: Text) -> Text:
    nodes = [
        n.test
        for _, m in text.methods(2)
        for s in code_of(m)
        for n in ast.walk(s)
        if isinstance(n, ast.If) and n.test.lineno == n.test.end_lineno
    ]
    node = text.random.choice(nodes)
    form = text.random.choice(["({}) and self.training", "not ({})"])
    return text.replace((node, form.format(text.source(node))))


def replace_run(text: Text) -> Text:
    """Two or three statements by others."""
    owner, method = text.method(5)
    if method.name == "__init__":
        raise LookupError("others need what it sets")
    body = code_of(method)
    start = text.random.randrange(len(body) - 3)
    run = body[start : start + text.random.randint(2, 3)]
    if any(map(returns, run)) or isinstance(run[0], ast.Raise):
        raise LookupError("it returns")
    names = sorted({n.id for s in run for n in names_of(s) if isinstance(n.ctx, ast.Store)})
    code = [f"{name} = fresh" for name in names] or ["fresh.append(1)"]
    lines = text.text.split("\n")
    first, last = first_line(run[0]) - 1, run[-1].end_lineno
    new = "\n".join(["# all of it is ours", "fresh = [1, 2]", *code])
    lines[first:last] = indent(new, run[0].col_offset).split("\n")
    return text.of("\n".join(lines))


def return_more(text: Text) -> Text:
    nodes = [
        s.value
        for _, m in text.methods(2)
        for s in code_of(m)
        if isinstance(s, ast.Return) and isinstance(s.value, ast.Name | ast.Call)
    ]
    node = text.random.choice(nodes)
    return text.replace((node, f"{text.source(node)}, None"))


def change_string(text: Text) -> Text:
    nodes = [
        n
        for _, m in text.methods(1)
        for s in code_of(m)
        for n in ast.walk(s)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.lineno == n.end_lineno
        if text.source(n).startswith('"') and "{" not in n.value
    ]
    node = text.random.choice(nodes)
    return text.replace((node, f'"{text.random.choice(["mine", "other text"])}"'))


def change_keyword(text: Text) -> Text:
    """An argument of a call more, or one less."""
    # What belongs to the file would no longer fit its call.
    calls = [
        n
        for _, m in text.methods(2)
        for s in code_of(m)
        for n in calls_of(s)
        if n.keywords and n.keywords[-1].arg and re.match(r"(torch|nn)\.", text.source(n))
        if not re.search("[\"']", text.source(n))
    ]
    call = text.random.choice(calls)
    last = call.keywords[-1]
    if text.random.random() < 0.5 and len(call.args) + len(call.keywords) > 1:
        return text.replace(
            (call, re.sub(rf",\s*{last.arg}\s*=.*\Z", ")", text.source(call), flags=re.S))
        )
    return text.replace((last.value, f"{text.source(last.value)}, extra_flag=True"))


def several_places(text: Text) -> Text:
    """Three changes of one method."""
    owner, method = text.method(6)
    body = [s for s in code_of(method)[:-1] if is_plain(s) and not returns(s)]
    if len(body) < 3:
        raise LookupError("it is short")
    made = text
    for node in sorted(text.random.sample(body, 3), key=lambda n: -n.lineno):
        if text.random.random() < 0.5:
            more = text.random.choice(["print('here')", "count = 1", "del count", "torch.rand(1)"])
            made = made.insert(node.end_lineno, indent(more, node.col_offset))
        else:
            made = made.insert(
                first_line(node) - 1, indent("assert self is not None", node.col_offset)
            )
    return made


def put_in_function(text: Text) -> Text:
    function = text.random.choice(functions(text))
    first = text.random.choice(code_of(function))
    return text.insert(first_line(first) - 1, indent("checked = True", first.col_offset))


def rewrite_function(text: Text) -> Text:
    function = text.random.choice(functions(text))
    body = code_of(function)
    lines = text.text.split("\n")
    name = function.args.args[0].arg if function.args.args else "None"
    new = f"# ours\nif {name} is None:\n    return None\nreturn {name}"
    lines[first_line(body[0]) - 1 : body[-1].end_lineno] = indent(new, body[0].col_offset).split(
        "\n"
    )
    return text.of("\n".join(lines))


def add_argument_of_function(text: Text) -> Text:
    """A parameter of a function at the top, and its callers pass it."""
    names = {f.name: f for f in functions(text) if not f.args.vararg and not f.args.kwonlyargs}
    calls = [n for c in text.classes for n in ast.walk(c) if isinstance(n, ast.Call)]
    calls = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id in names]
    name = text.random.choice(sorted({n.func.id for n in calls}))
    changes = [add_parameter(text, names[name], "softcap", "", "None")]
    for call in (n for n in calls if n.func.id == name):
        source = text.source(call)[:-1].rstrip()
        comma = " " if source.endswith(",") else ", " if call.args or call.keywords else ""
        changes.append((call, f"{source}{comma}softcap=1.5)"))
    made = text.replace(*changes)
    (function,) = [f for f in functions(made) if f.name == name]
    first = code_of(function)[0]
    return made.insert(
        first_line(first) - 1, indent("assert softcap is not None", first.col_offset)
    )


def thread_through_three(text: Text) -> Text:
    """`window` from the model through its layers to what these hold."""
    forward = {
        c.name: m
        for c in text.classes
        for m in c.body
        if isinstance(m, Function) and m.name == "forward"
    }
    source = {c.name: text.source(c) for c in text.classes}
    held = {n: dict(re.findall(r"self\.(\w+) = (\w+)\(", s)) for n, s in source.items()}
    lists = {
        n: re.findall(r"nn\.ModuleList\(\s*\[?\s*(\w+)\(", s)
        for n, s in source.items()
        if n in forward
    }
    chains = []
    for model, layers in lists.items():
        for layer in {*layers} & {*forward}:
            loops = [n for n in ast.walk(forward[model]) if isinstance(n, ast.For)]
            targets = {n.id for loop in loops for n in names_of(loop.target)}
            calls = [c for c in calls_of(forward[model]) if ast.unparse(c.func) in targets]
            below = [
                (c, held[layer][name])
                for c in calls_of(forward[layer])
                if (name := ast.unparse(c.func).removeprefix("self.")) in held[layer]
                and held[layer][name] in forward
            ]
            chains += [(model, layer, inner, [call, *calls]) for call, inner in below if calls]
    model, layer, inner, calls = text.random.choice(chains)
    name = text.free("window_size", "adapter_scale")
    if any(k.arg is None for c in calls[1:] for k in c.keywords) and len(calls) > 2:
        raise LookupError("its calls differ")
    changes = [add_parameter(text, forward[n], name, "", "None") for n in (model, layer, inner)]
    for call in calls:
        begin = text.source(call)[:-1].rstrip()
        comma = " " if begin.endswith(",") else ", "
        changes.append((call, f"{begin}{comma}{name}={name})"))
    made = text.replace(*changes)
    (method,) = [m for c, m in made.methods(1) if c.name == inner and m.name == "forward"]
    first = code_of(method)[0]
    use = f"if {name} is not None:\n    print({name})"
    return made.insert(first_line(first) - 1, indent(use, first.col_offset))


def calls_of(node: ast.AST) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def add_keyword_only(text: Text) -> Text:
    """A parameter before `**kwargs`, or by keyword alone."""
    methods = [m for _, m in text.methods(2) if m.name == "forward" and not m.args.kwonlyargs]
    method = text.random.choice([m for m in methods if len(m.args.args) > 1 and not m.args.vararg])
    name = text.free("return_gates", "probe_mode")
    last = method.args.defaults[-1] if method.args.defaults else method.args.args[-1]
    mark = "" if text.random.random() < 0.5 and method.args.defaults else "*, "
    first = code_of(method)[0]
    made = text.insert(first_line(first) - 1, indent(f"print({name})", first.col_offset))
    (method,) = [m for _, m in made.methods(1) if m.lineno == method.lineno]
    last = method.args.defaults[-1] if method.args.defaults else method.args.args[-1]
    return made.replace((last, f"{made.source(last)}, {mark}{name}: bool = False"))


def add_other_keywords(text: Text) -> Text:
    """`**kwargs` for a method that took none, as people do to hand on what is new."""
    methods = [m for _, m in text.methods(1) if m.args.kwarg is None and len(m.args.args) > 1]
    method = text.random.choice([m for m in methods if not m.args.vararg])
    if "kwargs" in text.source(method):
        raise LookupError("kwargs")
    first = code_of(method)[0]
    made = text.insert(first_line(first) - 1, indent('kwargs.pop("extra", 0)', first.col_offset))
    (method,) = [m for _, m in made.methods(1) if m.lineno == method.lineno]
    arguments = method.args
    listed = [*arguments.args, *arguments.defaults, *arguments.kwonlyargs, *arguments.kw_defaults]
    last = max(filter(None, listed), key=lambda node: (node.lineno, node.col_offset))
    return made.replace((last, f"{made.source(last)}, **kwargs"))


def add_parameter_between(text: Text) -> Text:
    """A parameter in front of others, as people add what belongs to the one above it."""
    methods = [m for _, m in text.methods(2) if len(m.args.args) > 2 and m.name != "__init__"]
    method = text.random.choice([m for m in methods if not m.args.posonlyargs])
    name = text.free("sep_positions", "second_mask")
    first = code_of(method)[0]
    made = text.insert(first_line(first) - 1, indent(f"print({name})", first.col_offset))
    (method,) = [m for _, m in made.methods(1) if m.lineno == method.lineno]
    arguments = method.args
    place = text.random.randrange(1, len(arguments.args) - 1)
    required = len(arguments.args) - len(arguments.defaults)
    if place < required - 1:
        above = arguments.args[place]
        return made.replace((above, f"{made.source(above)}, {name}"))
    above = arguments.defaults[place - required] if place >= required else arguments.args[place]
    hint = text.random.choice(["=None", ": dict = None", ": int | None = None"])
    return made.replace((above, f"{made.source(above)}, {name}{hint}"))


def give_variable_from_outside(text: Text) -> Text:
    """A variable as a parameter, computed where it is not given."""
    method, statement, name = assigned(text)
    if any(n.id == name for s in method.body for n in names_of(s) if n.lineno < statement.lineno):
        raise LookupError(name)
    lines = text.text.split("\n")
    column = " " * statement.col_offset
    inner = lines[statement.lineno - 1 : statement.end_lineno]
    lines[statement.lineno - 1 : statement.end_lineno] = [
        f"{column}if {name} is None:",
        *(f"    {line}" if line.strip() else line for line in inner),
    ]
    made = text.of("\n".join(lines))
    (method,) = [m for _, m in made.methods(1) if m.lineno == method.lineno]
    return made.replace(add_parameter(made, method, name, "", "None"))


def rename_parameter(text: Text) -> Text:
    """A parameter of a method that nobody calls by keyword."""
    choices = []
    for _, method in text.methods(2):
        inner = [
            n for n in ast.walk(method) if isinstance(n, Function | ast.Lambda) and n is not method
        ]
        for arg in method.args.args[1:]:
            if not inner and not re.search(rf"\b{arg.arg}=", text.text) and arg.arg != "config":
                choices.append((method, arg))
    method, arg = text.random.choice(choices)
    new = text.free(f"{arg.arg}_in", f"the_{arg.arg}")
    hint = f": {text.source(arg.annotation)}" if arg.annotation else ""
    body = [(n, new) for s in method.body for n in names_of(s) if n.id == arg.arg]
    return text.replace((arg, f"{new}{hint}"), *body)


def rename_attribute(text: Text) -> Text:
    """`self.gate_proj` throughout the file."""
    names = re.findall(r"self\.(\w+) = ", text.text)
    names = [
        n
        for n in names
        if len(re.findall(rf"\b{n}\b", text.text)) == len(re.findall(rf"self\.{n}\b", text.text))
    ]
    name = text.random.choice(sorted({*names}))
    new = text.free(f"my_{name}", f"{name}_x")
    return text.of(re.sub(rf"\bself\.{name}\b", f"self.{new}", text.text))


def rename_function(text: Text) -> Text:
    name = text.random.choice(functions(text)).name
    if re.search(rf"\.{name}\b|['\"].*\b{name}\b", text.text):
        raise LookupError(name)
    return text.of(re.sub(rf"\b{name}\b", text.free(f"my_{name}", f"{name}_x"), text.text))


def rename_behind(text: Text) -> Text:
    """All classes with another ending."""
    names = [c.name for c in text.classes]
    end = text.random.choice(["_KV", "Custom"])
    either = "|".join(sorted(names, key=len, reverse=True))
    if len(names) < 3 or any(f"{n}{end}" in text.words for n in names):
        raise LookupError(end)
    return text.of(re.sub(rf"\b({either})\b", rf"\1{end}", text.text))


def derive_in_file(text: Text) -> Text:
    """A class that derives from one of the file, and is built in its place."""
    source = text.text
    names = [c.name for c in text.classes if re.search(rf"self\.\w+ = {c.name}\(", source)]
    name = text.random.choice(names)
    new = text.free(f"Sparse{name}", f"Fast{name}")
    made = text.of(re.sub(rf"(self\.\w+ = ){name}\(", rf"\1{new}(", source))
    (node,) = [c for c in made.classes if c.name == name]
    code = f"class {new}({name}):\n    def forward(self, *args, **kwargs):\n"
    code += "        return super().forward(*args, **kwargs)"
    return made.insert(node.end_lineno, f"\n\n{code}")


def add_special_member(text: Text) -> Text:
    node = text.random.choice(text.classes)
    name = text.free("width_x", "make_x")
    forms = [
        f"    @property\n    def {name}(self):\n        return 1",
        f"    @staticmethod\n    def {name}(x):\n        return x",
        f"    @classmethod\n    def {name}(cls, x: int = 0):\n        return cls",
        f"    {name}: int = 3",
    ]
    place = text.random.choice([m for m in node.body if isinstance(m, Function)] or node.body[-1:])
    return text.insert(place.end_lineno, f"\n{text.random.choice(forms)}")


def flag_of_import(text: Text) -> Text:
    if "HAS_FUSED" in text.words:
        raise LookupError("it is there")
    code = (
        "try:\n    from fused_ops import fused_norm\n\n    HAS_FUSED = True\nexcept ImportError:\n"
    )
    code += text.random.choice(
        ["    HAS_FUSED = False", "    fused_norm = None\n    HAS_FUSED = False"]
    )
    last = max(n.end_lineno for n in text.tree.body if isinstance(n, ast.ImportFrom | ast.Import))
    made = text.insert(last, f"\n{code}\n")
    return call_somewhere(made, "if HAS_FUSED:\n    print(fused_norm)")


def import_for_types(text: Text) -> Text:
    if "TYPE_CHECKING" in text.words:
        raise LookupError("it is there")
    made = text.imported("from typing import TYPE_CHECKING")
    last = max(n.end_lineno for n in made.tree.body if isinstance(n, ast.ImportFrom | ast.Import))
    made = made.insert(last, "\nif TYPE_CHECKING:\n    from .cache_local import KeepCache\n")
    return change_expression_of(made)


def change_expression_of(text: Text) -> Text:
    _, statement, name = assigned(text)
    return text.insert(statement.end_lineno, indent(f"{name} = {name} + 0", statement.col_offset))


def import_inside(text: Text) -> Text:
    module = text.random.choice([".kernels_in", "einops", "transformers.activations"])
    name = {"einops": "rearrange", "transformers.activations": "ACT2FN"}.get(module, "fast_shift")
    if name in text.words:
        raise LookupError(name)
    return call_somewhere(text, f"from {module} import {name}\n\nprint({name})")


def add_output_class(text: Text) -> Text:
    name = text.free("GatedOutput", "TracedOutput")
    made = text.imported("from dataclasses import dataclass")
    made = made.imported("from transformers.utils import ModelOutput")
    code = f"@dataclass\nclass {name}(ModelOutput):\n    gates: tuple | None = None\n    loss: float = 0.0"
    made = made.above_classes(code)
    return call_somewhere(made, f"print({name}())")


def change_table(text: Text) -> Text:
    """An entry of a table at the top more."""
    tables = [
        n
        for n in text.tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Dict) and n.value.keys
    ]
    node = text.random.choice(tables)
    source = text.source(node.value)
    body = source.rstrip("}").rstrip().removesuffix(",")
    return text.replace(
        (node.value, f'{body},\n    "mine": {text.source(node.value.values[0])},\n}}')
    )


def move_class(text: Text) -> Text:
    first, second = text.random.choice([*zip(text.classes, text.classes[1:], strict=False)])
    lines = text.text.split("\n")
    if any(
        first.name in {n.id for n in names_of(b)} for b in [*second.bases, *second.decorator_list]
    ):
        raise LookupError("it derives")
    above = lines[first_line(first) - 1 : first.end_lineno]
    between = lines[first.end_lineno : first_line(second) - 1]
    below = lines[first_line(second) - 1 : second.end_lineno]
    lines[first_line(first) - 1 : second.end_lineno] = [*below, *between, *above]
    return change_expression_of(text.of("\n".join(lines)))


def delete_function(text: Text) -> Text:
    nodes = [f for f in functions(text) if len(re.findall(rf"\b{f.name}\b", text.text)) == 1]
    made = text.remove(text.random.choice(nodes))
    return change_expression_of(made)


def nested_function(text: Text) -> Text:
    _, statement, name = assigned(text)
    code = f"def shift(x, by=1):\n    return x.roll(by)\n\n{name} = shift({name})"
    return text.insert(statement.end_lineno, indent(code, statement.col_offset))


def decorate_class(text: Text) -> Text:
    """A decorator of a class or function at the top more, or one less."""
    nodes = [n for n in text.tree.body if isinstance(n, ast.ClassDef | Function)]
    decorated = [
        (n, d) for n in nodes for d in n.decorator_list if "dataclass" not in text.source(d)
    ]
    if decorated and text.random.random() < 0.6:
        node, decorator = text.random.choice(decorated)
        lines = text.text.split("\n")
        del lines[decorator.lineno - 1 : decorator.end_lineno]
        return text.of("\n".join(lines))
    function = text.random.choice(functions(text))
    return text.insert(first_line(function) - 1, "@torch.no_grad()")


def change_bases(text: Text) -> Text:
    """A base less, or one of transformers more."""
    many = [c for c in text.classes if len(c.bases) > 1]
    if many and text.random.random() < 0.5:
        node = text.random.choice(many)
        source = ", ".join(text.source(b) for b in node.bases[:-1])
        lines = text.text.split("\n")
        line = lines[node.lineno - 1]
        if not line.rstrip().endswith("):"):
            raise LookupError("its head is long")
        lines[node.lineno - 1] = f"class {node.name}({source}):"
        return text.of("\n".join(lines))
    name = "PushToHubMixin"
    # A model has it already.
    plain = [c for c in text.classes if c.bases and text.source(c.bases[-1]).endswith("Module")]
    node = text.random.choice(plain)
    made = text.replace((node.bases[-1], f"{text.source(node.bases[-1])}, {name}"))
    return made.imported(f"from transformers.utils import {name}")


def use_functional(text: Text) -> Text:
    """`F.softmax` for `nn.functional.softmax`."""
    if "F" in text.words or "nn.functional." not in text.text:
        raise LookupError("F")
    made = text.imported("import torch.nn.functional as F")
    pieces = re.split(r"(?<![\w.])nn\.functional\.", made.text)
    if len(pieces) < 2:
        raise LookupError("F")
    return made.of("F.".join(pieces))


def drop_annotations(text: Text) -> Text:
    """No annotations of what is returned, and another statement."""
    lines = text.text.encode().split(b"\n")
    for _, method in text.methods(1):
        line = method.body[0].lineno - 2
        lines[line] = re.sub(rb"\) -> [^:]+:$", b"):", lines[line])
    return change_expression_of(text.of(b"\n".join(lines).decode()))


def document_methods(text: Text) -> Text:
    """Docstrings and comments, and another statement."""
    _, method = text.random.choice([p for p in text.methods(2) if not ast.get_docstring(p[1])])
    first = code_of(method)[0]
    made = text.insert(
        first_line(first) - 1, indent('"""What it does.\n\nMore of it.\n"""', first.col_offset)
    )
    return change_expression_of(made)


def long_super(text: Text) -> Text:
    nodes = [
        (c, n)
        for c in text.classes
        for m in c.body
        if isinstance(m, Function)
        for n in calls_of(m)
        if text.source(n) == "super()"
    ]
    owner, node = text.random.choice(nodes)
    made = text.replace((node, f"super({owner.name}, self)"))
    return change_expression_of(made)


def list_more(text: Text) -> Text:
    """A new class that `__all__` lists."""
    nodes = [
        n
        for n in text.tree.body
        if isinstance(n, ast.Assign) and text.source(n.targets[0]) == "__all__"
    ]
    node = text.random.choice(nodes)
    name = text.free("ValueHead", "RewardHead")
    source = text.source(node.value)
    made = text.replace((node.value, f'{source[:-1].rstrip().removesuffix(",")}, "{name}"]'))
    code = f"class {name}(nn.Module):\n    def forward(self, x):\n        return x.mean(-1)"
    return made.above_classes(code)


def rename_with_constants(text: Text) -> Text:
    """A model under another name, with what is written in capitals too."""
    named = [c.name for c in text.classes if c.name.endswith("PreTrainedModel")]
    prefix = text.random.choice([n.removesuffix("PreTrainedModel") for n in named])
    new = text.random.choice(["Tiny", "Long"])
    bound = [c.name for c in text.classes]
    bound += [t.id for n in text.tree.body if isinstance(n, ast.Assign) for t in names_of(n)]
    begin = rf"({prefix}(?=[A-Z])|{prefix.upper()}(?=_(?!\w*DOC)))"
    renamed = [name for name in {*bound} if prefix and re.match(begin, name)]
    if not any(map(str.isupper, renamed)) or any(re.match(new, word) for word in text.words):
        raise LookupError(prefix)
    either = "|".join(sorted(renamed, key=len, reverse=True))
    names = {n: (new.upper() if n.isupper() else new) + n[len(prefix) :] for n in renamed}
    return text.of(re.sub(rf"\b({either})\b", lambda m: names[m[1]], text.text))


def copied_from(text: Text) -> Text:
    """A comment over an `__init__` that does more at its end."""
    inits = [m for c in text.classes for m in c.body if getattr(m, "name", "") == "__init__"]
    node = text.random.choice(inits)
    made = text.insert(node.end_lineno, f"        self.{text.free('rate_x')} = 0.5")
    return made.insert(node.lineno - 1, "    # Copied from modeling_other.OtherLayer.__init__")


def guard_with_message(text: Text) -> Text:
    """A kernel that may be missing, which is said."""
    module = text.free("fast_ops", "kernels_x")
    what = text.random.choice(["print", "logger.warning"])
    if what != "print" and "logger" not in text.words:
        raise LookupError(what)
    code = f"try:\n    import {module}.ops\nexcept ImportError:\n    {what}('no {module}')"
    made = text.above_classes(code)
    methods = [m for _, m in made.methods() if m.name == "forward" and m.args.args[1:]]
    method = text.random.choice(methods)
    name = method.args.args[1].arg
    return made.insert(
        code_of(method)[0].lineno - 1, f"        {name} = {module}.ops.scale({name})"
    )


MORE = (
    put_statement_deep, remove_statement_deep, swap_statements, wrap_several, add_branch,
    change_test, replace_run, return_more, change_string, change_keyword, several_places,
    put_in_function, rewrite_function, add_argument_of_function, thread_through_three,
    add_keyword_only, add_other_keywords, add_parameter_between, give_variable_from_outside, rename_parameter,
    rename_attribute, rename_function, rename_behind,
    derive_in_file, add_special_member, flag_of_import, import_for_types, import_inside,
    add_output_class, change_table, move_class, delete_function, nested_function, decorate_class,
    change_bases, use_functional, drop_annotations, document_methods, long_super, list_more,
    rename_with_constants, copied_from, guard_with_message,
)  # fmt: skip
