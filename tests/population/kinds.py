"""Modular files of the kinds that engineers write, made mechanically of a model's text.

In each text `hf` is the model's module.  `renames` says which class of the model a new class stands
for; a class of the same name stands for it anyway.  `oracle` is the model's own file, in which each
class of the modular file stands below the one that it takes the place of: Python itself inherits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

from tests.population.models import Model, arguments_of, models

NEW, SECOND = "Tiny", "Other"  # prefixes of new models
ROLES = {
    "attention": r"Attention$",
    "layer": r"(Decoder|Encoder)?Layer$",
    "block": r"Block$",
    "mlp": r"(MLP|Mlp|FeedForward|FFN|Intermediate)$",
}
STATES = ("hidden_states", "hidden_state", "x", "inputs", "input", "features", "query_states")
# A parameter to halve in a function that is replaced.
HALVED = ("scaling", "x", "q", "hidden_states", "query")


@dataclass(frozen=True)
class Case:
    """One modular file."""

    kind: str
    form: str
    model: Model
    body: str
    imports: tuple[str, ...] = ()
    renames: dict[str, str] = field(default_factory=dict)  # new name: the model's
    head: str = ""  # to be built, under its new name
    fields: dict[str, object] = field(default_factory=dict)  # new ones of the configuration
    like: str = ""  # the class of the model that takes the same inputs, where it is not the head

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", f"{self.kind}_{self.form}_{self.model.name}")

    @property
    def text(self) -> str:
        lines = [f'"""{self.model.name}: {self.form}."""\n', *self._imports()]
        lines += [f"from {self.model.module.rpartition('.')[0]} import {self.model.path.stem} as hf"]
        text = "\n".join(lines) + f"\n\n\n{self.body.strip()}\n"
        return text

    def _imports(self) -> list[str]:
        used = [s for n, s in (("torch", "import torch"), ("nn", "from torch import nn")) if re.search(rf"\b{n}\.", self.body)]
        return list(dict.fromkeys([*used, *self.imports]))

    @property
    def changed(self) -> frozenset[str]:
        """The model's definitions that something stands for."""
        nodes = ast.parse(self.body).body
        names = {getattr(n, "name", "") or ast.unparse(n).partition(" =")[0] for n in nodes}
        return frozenset({self.renames.get(name, name) for name in names} & self.model.bound)

    @property
    def oracle(self) -> str:
        """The model's file with what the modular file defines."""
        lines = self.model.text.split("\n")
        ends = {getattr(n, "name", ""): n.end_lineno for n in self.model.tree.body}
        below: dict[int, list[str]] = {}
        waiting: list[str] = []
        for node in ast.parse(self.body).body:
            name = getattr(node, "name", "") or ast.unparse(node).partition(" =")[0]
            if name.endswith("Config") and name in self.renames:
                continue
            waiting.append(self._as_parent(node))
            line = ends.get(self.renames.get(name, name))
            if line is not None:
                below.setdefault(line, []).extend(waiting)
                waiting = []
        top = next(n for n in self.model.tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef))
        first = min([top.lineno, *(d.lineno for d in top.decorator_list)])
        below.setdefault(first - 1, []).extend(self._imports())
        return "\n".join(
            [f"{line}\n" + "\n\n".join(below[i]) + "\n" if i in below else line for i, line in enumerate(lines, 1)]
            + waiting
        )

    def _as_parent(self, node: ast.stmt) -> str:
        text = re.sub(r"\bhf\.(\w+)", r"\1", ast.unparse(node))
        if text.startswith("@dataclass"):  # Python inherits no docstring, transformers reads it
            text += f"\n{node.name}.__doc__ = {node.name}.__mro__[1].__doc__"
        return re.sub(r"\b\w+\b", lambda word: self.renames.get(word[0], word[0]), text)


Maker = Callable[[Model, Random], Iterator[Case]]


# --- what a class of one's own is


def own_class(model: Model, name: str, new: str, form: str) -> str:
    """`name` with a small change; "" where the form does not fit."""
    init, forward = model.method(name, "__init__"), model.method(name, "forward")
    top = f"class {new}(hf.{name}):\n"
    if form == "method":
        return f"{top}    def count_parameters(self):\n        return sum(p.numel() for p in self.parameters())\n"
    if form == "attribute" and init:
        return (
            f"{top}    def __init__({model.signature(init)}):\n"
            f"        super().__init__({arguments_of(init)})\n        self.extra_scale = 0.5\n"
        )
    if form == "halved" and forward and arguments_of(forward).split(",")[0] in STATES:
        return (
            f"{top}    def forward({model.signature(forward)}):\n"
            f"        return super().forward({arguments_of(forward, '{} * 0.5')})\n"
        )
    if form == "whole" and "torch" in model.imports and "nn" in model.imports:
        node = model.classes[name]
        text = model.qualified(node)
        text = text[text.index(f"class {name}") :].replace(f"class {name}", f"class {new}", 1)
        if not re.search(rf"\b{name}\b", text) and not _unbound(model, node):
            return f"{text}\n"
    return ""


def _unbound(model: Model, node: ast.AST) -> bool:
    """Whether it reads what the file imports under a condition."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    conditional = {
        alias.asname or alias.name
        for branch in model.tree.body
        if isinstance(branch, ast.If | ast.Try)
        for n in ast.walk(branch)
        if isinstance(n, ast.Import | ast.ImportFrom)
        for alias in n.names
    }
    return bool(names & conditional)


def of_role(model: Model, role: str) -> list[str]:
    """The classes of a role that the main head is made of."""
    mine = model.reachable(model.head) & {*model.renamable(model.prefix)}
    return sorted(n for n in mine if re.search(ROLES[role], n) and model.method(n, "forward"))


def new_name(model: Model, name: str, prefix: str = NEW) -> str:
    return prefix + name.removeprefix(model.prefix)


def new_model(model: Model, kind: str, form: str, body: str, names: list[str], **more: object) -> Case:
    """A new model: `body`, and the head."""
    renames = {new_name(model, name): name for name in [*names, model.head]}
    head = new_name(model, model.head)
    if head not in body:
        body += f"\n\nclass {head}(hf.{model.head}):\n    pass\n"
    imports = tuple(model.needed_imports(body))
    return Case(kind, form, model, body, imports, renames, head, **more)


# --- a to g


def block(model: Model, random: Random) -> Iterator[Case]:
    """A new model with an attention, layer, block or MLP class of its own."""
    for role in ROLES:
        names = of_role(model, role)
        if not names:
            continue
        name = random.choice(names)
        for form in random.sample(["method", "attribute", "halved", "whole"], 4):
            if body := own_class(model, name, new_name(model, name), form):
                yield new_model(model, "block", f"{role}-{form}", body, [name])
                break




def passed_through(model: Model, name: str) -> str:
    """`name` with each method passed to `super()`; "" where it has none."""
    node, methods = model.classes[name], []
    for member in node.body:
        if not isinstance(member, ast.FunctionDef):
            continue
        decorators = {ast.unparse(d) for d in member.decorator_list}
        special = member.name.startswith("__") and member.name != "__init__"
        if special or decorators & {"staticmethod", "overload"} or "." in "".join(decorators - {"torch.no_grad()"}):
            continue  # `super()` does not fit, or another definition of the name belongs to it
        if any(isinstance(m, ast.FunctionDef) and m is not member and m.name == member.name for m in node.body):
            continue
        kept = "".join(f"    @{d}\n" for d in ("classmethod", "property") if d in decorators)
        call = "" if "property" in decorators else f"({arguments_of(member)})"
        methods.append(
            f"{kept}    def {member.name}({model.signature(member)}):\n"
            f"        return super().{member.name}{call}\n"
        )
    return f"class {name}(hf.{name}):\n" + "\n".join(methods) + "\n\n" if methods else ""


def passing(model: Model, random: Random) -> Iterator[Case]:
    """Each class passed through `super()`: all of them, and one alone."""
    texts = {name: passed_through(model, name) for name in model.classes}
    used = sorted(name for name in model.reachable(model.head) if texts.get(name))
    for form, body in (("all", "".join(texts.values())), ("one", texts[random.choice(used)])):
        yield Case("super", form, model, body, tuple(model.needed_imports(body)), head=model.head)


# The models that a second class is taken from.
SECOND_MODELS = (
    "llama qwen3 gemma2 mistral mixtral olmo2 phi3 deepseek_v3 gpt_neox gpt2 bert roberta vit clip"
    " siglip bart t5 wav2vec2 whisper detr swin qwen2_vl falcon bloom opt"
)


@cache
def _second_models() -> dict[str, Model]:
    return {model.name: model for model in models() if model.name in SECOND_MODELS.split()}


def _second(model: Model, random: Random) -> tuple[str, Model, str] | None:
    """A class of the model, and one of another model that is built and called in the same way."""

    def called(of: Model, name: str) -> list[str] | None:
        methods = [of.method(name, method) for method in ("__init__", "forward")]
        return [of.signature(m) for m in methods if m] if all(methods) else None

    pairs = []
    for role in ROLES:
        for name in of_role(model, role):
            word = name.removeprefix(model.prefix)
            for other in _second_models().values():
                theirs = other.prefix + word
                if other == model or theirs not in other.classes or called(other, theirs) != called(model, name):
                    continue
                if _settings(other, theirs) <= set(re.findall(r"config\.(\w+)", model.text)):
                    pairs.append((name, other, theirs))
    return random.choice(pairs) if pairs else None


def _settings(model: Model, name: str) -> set[str]:
    """What a class and what it is made of read from the configuration."""
    definitions = {**model.classes, **model.functions}
    texts = [ast.unparse(definitions[n]) for n in model.reachable(name) if n in definitions]
    return set(re.findall(r"config\.(\w+)", "".join(texts)))


def second(model: Model, random: Random) -> Iterator[Case]:
    """A class of another model: in a new model, in a class's place, or inside of a class."""
    pair = _second(model, random)
    if pair is None:
        return
    name, other, theirs = pair
    imported = (f"from {other.module.rpartition('.')[0]} import {other.path.stem} as second",)
    anchor = f"\n\nclass {model.head}(hf.{model.head}):\n    pass\n"
    form = random.choice(["new", "place", "inside"])
    if form == "inside" and (holder := _holder(model, name)):
        owner, line = holder
        body = _rebuilt(model, owner, owner, line.replace(f"{name}(", f"second.{theirs}("))
        yield Case("second", f"inside-{other.name}", model, body, imported, head=model.head)
    elif form == "place":
        body = f"class {name}(second.{theirs}):\n    pass\n{anchor}"
        yield Case("second", f"place-{other.name}", model, body, imported, head=model.head)
    else:
        new = new_name(model, name)
        case = new_model(model, "second", f"new-{other.name}", f"class {new}(second.{theirs}):\n    pass\n", [name])
        yield replace(case, imports=imported)


def _holder(model: Model, name: str) -> tuple[str, str] | None:
    """A class whose `__init__` makes a `name` of its own parameters, and the statement."""
    for owner in model.renamable(model.prefix):
        init = next((m for m in model.classes[owner].body if getattr(m, "name", "") == "__init__"), None)
        for node in init.body if isinstance(init, ast.FunctionDef) else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                read = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)} - {name}
                known = {"self", *(a.arg for a in init.args.args)}
                if ast.unparse(node.value.func) == name and read <= known and ast.unparse(node.targets[0]).count(".") == 1:
                    return owner, ast.unparse(node)
    return None


def _rebuilt(model: Model, owner: str, new: str, line: str) -> str:
    init = model.method(owner, "__init__")
    assert init is not None
    return (
        f"class {new}(hf.{owner}):\n    def __init__({model.signature(init)}):\n"
        f"        super().__init__({arguments_of(init)})\n        {line}\n"
    )


def _fed(model: Model) -> list[str]:
    """Classes of the main head that are built and given states."""
    names = [name for role in ROLES for name in of_role(model, role)]
    return [n for n in dict.fromkeys(names) if own_class(model, n, "X", "halved") and model.method(n, "__init__")]


def parameter(model: Model, random: Random) -> Iterator[Case]:
    """A new parameter with its initialisation."""
    names = _fed(model)
    if not names:
        return
    name = random.choice(names)
    body = _gained(model, name, name, "nn.Parameter(torch.ones(1))") + (
        f"\n\nclass {model.pretrained}(hf.{model.pretrained}):\n    @torch.no_grad()\n"
        "    def _init_weights(self, module):\n        super()._init_weights(module)\n"
        f"        if isinstance(module, {name}):\n            nn.init.constant_(module.gain, 0.5)\n"
    )
    yield Case("parameter", "gain", model, body, tuple(model.needed_imports(body)), head=model.head)


def _gained(model: Model, name: str, new: str, gain: str, base: str = "") -> str:
    """`name` whose input is multiplied with a new attribute `gain`."""
    init, forward = model.method(name, "__init__"), model.method(name, "forward")
    assert init and forward
    return (
        f"class {new}({base or f'hf.{name}'}):\n    def __init__({model.signature(init)}):\n"
        f"        super().__init__({arguments_of(init)})\n        self.gain = {gain}\n\n"
        f"    def forward({model.signature(forward)}):\n"
        f"        return super().forward({arguments_of(forward, '{} * self.gain')})\n"
    )


def _config(model: Model, fields: str) -> tuple[str, str, str]:
    """The configuration's class, its import, and a class with `fields` of a new model."""
    for node in model.classes[model.pretrained].body if model.pretrained else ():
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "config":
            name = ast.unparse(node.annotation)
            if name.startswith(model.prefix) and name in model.imports:
                new = new_name(model, name)
                text = f'@strict\nclass {new}({name}):\n    model_type = "tiny"\n{fields}\n\n'
                return name, model.imports[name], text
    return "", "", ""


STRICT = "from huggingface_hub.dataclasses import strict"


def prefix(model: Model, random: Random) -> Iterator[Case]:
    """Every class renamed; two prefixes; an `__init__` that skips its parent's."""
    form = random.choice(["all", "two", "skip"])
    holders = [(n, *h) for r in ROLES for n in of_role(model, r) if (h := _holder(model, n)) and h[0] in model.reachable(model.head)]
    if form == "two" and holders:
        name, owner, line = random.choice(holders)
        inner = new_name(model, name, SECOND)
        body = own_class(model, name, inner, "attribute")
        body += "\n\n" + _rebuilt(model, owner, new_name(model, owner), line.replace(f"{name}(", f"{inner}("))
        yield new_model(model, "prefix", "two", body, [owner])
        return
    plain = [n for n in _fed(model) if "super().__init__()" in ast.unparse(model.method(n, "__init__"))]
    if form == "skip" and plain:
        name = random.choice(plain)
        init = model.method(name, "__init__")
        text = model.qualified(init).replace("super().__init__()", "nn.Module.__init__(self)")
        head, _, rest = text.partition(":\n")
        body = f"class {new_name(model, name)}(hf.{name}):\n    def __init__({model.signature(init)}):\n"
        body += "".join(f"    {line}\n" for line in text[text.index("\n", text.index("def ")) + 1 :].split("\n"))
        yield new_model(model, "prefix", "skip", body + "        self.extra_scale = 0.5\n", [name])
        return
    config, imported, text = _config(model, "")
    names = model.renamable(model.prefix)
    body = text + "\n\n".join(f"class {new_name(model, n)}(hf.{n}):\n    pass\n" for n in names)
    case = new_model(model, "prefix", "all", body, [*names, *([config] if config else [])])
    yield replace(case, imports=(STRICT, imported)) if config else case


def head(model: Model, random: Random) -> Iterator[Case]:
    """A head with its own `__init__`: a new one on the base model, or one of the model's."""
    changed = _fed(model)
    changed_text = own_class(model, random.choice(changed), "{}", "halved") if changed else ""
    others = [n for n in model.public if "For" in n and n in model.renamable(model.prefix)]
    if others and random.random() < 0.5:
        name = random.choice(others)
        init = model.method(name, "__init__")
        if init:
            body = _as_variant(changed_text) + _rebuilt(model, name, name, "self.dropout = nn.Dropout(0.1)")
            yield Case("head", "init", model, body, tuple(model.needed_imports(body)), head=name)
            return
    if not model.base or not model.pretrained:
        return
    new = random.choice([model.prefix, NEW])
    name, base = f"{new}ForRanking", model.base
    sized = "config.hidden_size" in ast.unparse(model.classes[base])
    body = _as_variant(changed_text) if new == model.prefix else ""
    body += (
        f"class {name}(hf.{model.pretrained}):\n    def __init__(self, config):\n"
        f"        super().__init__(config)\n        self.model = hf.{base}(config)\n"
        f"        self.score = {'nn.Linear(config.hidden_size, 2)' if sized else 'nn.Dropout(0.1)'}\n"
        "        self.post_init()\n\n    def forward(self, *args, **kwargs):\n"
        "        return self.score(self.model(*args, **kwargs)[0])\n"
    )
    renames = {name: name, new_name(model, model.pretrained): model.pretrained} if new == NEW else {}
    yield Case("head", f"own-{'new' if new == NEW else 'variant'}", model, body, head=name, renames=renames, like=base)


def _as_variant(text: str) -> str:
    return text and text.replace("{}", re.search(r"hf\.(\w+)", text)[1], 1) + "\n\n"


# --- g: what the issue names elsewhere


def middle(model: Model, random: Random) -> Iterator[Case]:
    """A class that takes its parent's place through a class of one's own, or by an alias."""
    if names := _fed(model):
        name, alias = random.choice(names), random.random() < 0.5
        scaled = f"Scaled{name.removeprefix(model.prefix)}"
        body = _gained(model, name, scaled, "0.5")
        body += f"\n\n{name} = {scaled}\n" if alias else f"\n\nclass {name}({scaled}):\n    pass\n"
        yield Case("middle", "alias" if alias else "class", model, body, tuple(model.needed_imports(body)), head=model.head)


def function(model: Model, random: Random) -> Iterator[Case]:
    """A function of the model replaced."""
    used = [f for n, f in sorted(model.functions.items()) if n in model.reachable(model.head) and f.args.args and not _unbound(model, f)]
    known = [f for f in used if any(a.arg in HALVED for a in f.args.args)]
    if used:
        chosen = random.choice(known or used)
        node = ast.parse(model.qualified(chosen)).body[0]
        node.decorator_list = []
        halved = [a.arg for a in node.args.args if a.arg in HALVED][:1] if known else []
        names = halved or [node.args.args[0].arg]
        node.body.insert(0, ast.parse(f"{names[0]} = {names[0]}{' * 0.5' if halved else ''}").body[0])
        body = ast.unparse(node).replace(f"def hf.{chosen.name}", f"def {chosen.name}")
        body += f"\n\n\nclass {model.head}(hf.{model.head}):\n    pass\n"
        yield Case("function", chosen.name, model, body, tuple(model.needed_imports(body)), head=model.head)


def weights(model: Model, random: Random) -> Iterator[Case]:
    """`_init_weights` with `super()` and a line."""
    if model.pretrained:
        kind = random.choice(["Linear", "Embedding"])
        body = (
            f"class {model.pretrained}(hf.{model.pretrained}):\n    @torch.no_grad()\n"
            f"    def _init_weights(self, module):\n        super()._init_weights(module)\n"
            f"        if isinstance(module, nn.{kind}):\n            nn.init.normal_(module.weight, std=0.5)\n"
        )
        yield Case("weights", kind, model, body, head=model.head)


def configuration(model: Model, random: Random) -> Iterator[Case]:
    """A new model whose configuration has a new field, which a class of it reads."""
    config, imported, text = _config(model, "    gate_limit: float = 0.5\n")
    names = [n for n in _fed(model) if "config" in [a.arg for a in model.method(n, "__init__").args.args]]
    if config and names:
        name = random.choice(names)
        body = text + _gained(model, name, new_name(model, name), "config.gate_limit")
        case = new_model(model, "configuration", "field", body, [name, config], fields={"gate_limit": 0.5})
        yield replace(case, imports=(STRICT, imported, *case.imports))


def output(model: Model, random: Random) -> Iterator[Case]:
    """An output with a new field, which the base model sets."""
    forward = model.method(model.base, "forward")
    returned = re.findall(r"\w*Output\w*", ast.unparse(forward.returns)) if forward and forward.returns else []
    if not returned or model.base not in model.renamable(model.prefix):
        return
    name, call = returned[0], f"super().forward({arguments_of(forward)})"
    mine = name in model.classes
    new = name if mine else f"{model.prefix}NotedOutput"
    if not mine and name not in model.imports:
        return
    body = (
        f"@dataclass\nclass {new}({'hf.' if mine else ''}{name}):\n    note: torch.FloatTensor | None = None\n\n\n"
        f"class {model.base}(hf.{model.base}):\n    def forward({model.signature(forward)}):\n"
        f"        outputs = {call}\n"
    )
    body += (
        "        outputs.note = outputs[0] * 2\n        return outputs\n"
        if mine
        else f"        return {new}(**outputs, note=outputs[0] * 2)\n"
    )
    imports = ("from dataclasses import dataclass", *model.needed_imports(body))
    yield Case("output", "own" if mine else "shared", model, body, imports, head=model.base)


KINDS: dict[str, Maker] = {
    "block": block,
    "super": passing,
    "second": second,
    "parameter": parameter,
    "prefix": prefix,
    "head": head,
    "middle": middle,
    "function": function,
    "weights": weights,
    "configuration": configuration,
    "output": output,
}


def cases(model: Model, kind: str, seed: int) -> list[Case]:
    """The files of one kind for a model."""
    if not model.head:
        return []
    return list(KINDS[kind](model, Random(f"{seed} {kind} {model.name}")))
