"""Modular files of the kinds that engineers write: the forms of `forms.txt`, filled for each model.

The oracle of a file is the model's own text, in which each class of the modular file stands below the
one that it takes the place of: Python itself inherits.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from random import Random
from string import Template

from tests.oracle import sections
from tests.population.models import Model, arguments_of, find_models

FORMS = sections.read(Path(__file__).with_name("forms.txt"))
KINDS = tuple(dict.fromkeys(form.name.split()[0] for form in FORMS))
ROLES = {
    "attention": r"Attention$",
    "layer": r"Layer$",
    "block": r"Block$",
    "mlp": r"(MLP|Mlp|FeedForward|FFN|Intermediate)$",
}
# First arguments that are states, and arguments that a replaced function halves.
STATES = ("hidden_states", "hidden_state", "x", "inputs", "input", "features", "query_states")
HALVED = ("scaling", "x", "q", "hidden_states", "query")
# The models that a second class is taken from.
SECOND = """llama qwen3 gemma2 mistral mixtral olmo2 phi3 deepseek_v3 gpt_neox gpt2 bert roberta vit
clip siglip bart t5 wav2vec2 whisper detr swin qwen2_vl falcon bloom opt""".split()


@dataclass(frozen=True)
class Case:
    """One modular file."""

    kind: str
    form: str
    model: Model
    body: str
    renames: dict[str, str]  # new name: the model's
    head: str  # to be built
    like: str  # the class of the model that takes the same inputs, where it is not the head
    fields: tuple[str, ...]  # new ones of the configuration, 0.5

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", f"{self.kind}_{self.form}_{self.model.name}")

    @property
    def text(self) -> str:
        package, _, module = self.model.module.rpartition(".")
        imports = "\n".join([*self._imports, f"from {package} import {module} as hf"])
        return f'"""{self.kind} {self.form}."""\n\n{imports}\n{self.body.strip()}\n'

    @cached_property
    def _imports(self) -> list[str]:
        """What code that was taken from the model's file needs."""
        names = {n.id for n in ast.walk(ast.parse(self.body)) if isinstance(n, ast.Name)}
        known = {"nn": "from torch import nn", "torch": "import torch", **self.model.imports}
        return [known[name] for name in sorted(names & {*known})]

    @cached_property
    def changed(self) -> dict[str, ast.stmt]:
        """The statements of the file by the names in the model that they stand for."""
        nodes = ast.parse(self.body).body
        names = [getattr(n, "name", "") or ast.unparse(n).partition(" =")[0] for n in nodes]
        return {self.renames.get(n, n): node for n, node in zip(names, nodes, strict=True)}

    @property
    def oracle(self) -> str:
        lines, waiting = self.model.text.split("\n"), [*self._imports]
        ends = {name: node.end_lineno or 0 for name, node in self.model.definitions.items()}
        for name, node in self.changed.items():
            if (
                name not in self.model.imports
            ):  # the configuration, which the oracle sets a field of
                waiting.append(self._as_parent(node))
            if name in ends:
                lines[ends[name] - 1] += "\n" + "\n\n".join(waiting) + "\n"
                waiting = []
        return "\n".join([*lines, *waiting])

    def _as_parent(self, node: ast.stmt) -> str:
        text = re.sub(r"\bhf\.(\w+)", r"\1", ast.unparse(node))
        if text.startswith("@dataclass"):  # Python inherits no docstring, and transformers reads it
            text += f"\n{node.name}.__doc__ = {node.name}.__mro__[1].__doc__"
        return re.sub(r"\b\w+\b", lambda word: self.renames.get(word[0], word[0]), text)


def find_cases(model: Model, kind: str, seed: int) -> list[Case]:
    """The files of one kind for a model: of the forms that fit, one that `seed` draws."""
    random = Random(f"{seed} {kind} {model.name}")
    forms = [form for form in FORMS if form.name.split()[0] == kind]
    cases = []
    for pool in forms[0].options.get("each", "").split() or [""]:
        for form in random.sample(forms, len(forms) if model.head else 0):
            try:
                names = _pool(model, pool or form.options.get("class", "head"))
                cases.append(_fill(form, pool, Facts(model, random.choice(names), random)))
                break
            except LookupError:  # the form does not fit
                continue
    return cases


def _fill(form: sections.Entry, pool: str, facts: Facts) -> Case:
    text = form.texts["modular"]
    new = {*re.findall(r"\$new_(\w+)", text), *(["name"] if "$whole" in text else [])}
    if new:
        text += "" if "$new_head" in text else "\nclass $new_head(hf.$head):\n    pass\n"
        new |= {"head"}
    renames = {facts[f"new_{word}"]: facts[word] for word in new}
    if "$all_renamed" in text:
        renames = {facts.renamed(name): name for name in facts.model.renamable}
    filled = {
        option: Template(form.options.get(option, default)).substitute(facts)
        for option, default in (("head", "$new_head" if renames else "$head"), ("like", ""))
    }
    if filled["like"] and filled["head"].startswith(NEW):
        renames = {facts["new_pretrained"]: facts["pretrained"]}
    kind, label = form.name.split()
    label = "-".join([*filter(None, [pool]), label])
    body = Template(text).substitute(facts)
    return Case(kind, label, facts.model, body, renames, **filled, fields=form.names("fields"))


NEW = "Tiny"  # prefix of new models


def _pool(model: Model, pool: str) -> list[str]:
    """Classes that the main head is made of; raises LookupError for none."""
    mine = [name for name in model.renamable if name in model.reachable(model.head)]
    roles = [n for n in mine if re.search("|".join(ROLES.values()), n)]
    names = {"head": [model.head], "passed": [n for n in mine if _passed(model, n)], "role": roles}
    if pool in ROLES:
        return [n for n in mine if re.search(ROLES[pool], n)]
    if pool == "fed":
        return [n for n in roles if _argument(model, n)]
    if pool == "paired":
        return [n for n in roles if _pairs(model, n)]
    return names[pool]


def _argument(model: Model, name: str) -> str:
    """The first argument of a class's `forward`, where it is states; else ""."""
    try:
        first = arguments_of(model.method(name, "forward")).partition(",")[0]
        model.method(name, "__init__")
    except LookupError:
        return ""
    return first if first in STATES else ""


class Facts(dict[str, str]):
    """What the forms say of a model and one of its classes; raises LookupError for what is not so."""

    def __init__(self, model: Model, name: str, random: Random) -> None:
        super().__init__(name=name, head=model.head, base=model.base, prefix=model.prefix)
        self.model, self.random = model, random
        self["pretrained"], self["word"] = model.pretrained, name.removeprefix(model.prefix)

    def __missing__(self, key: str) -> str:
        if key.startswith("new_"):
            return self.renamed(self[key.removeprefix("new_")])
        if hasattr(self, f"_{key}"):
            self[key] = getattr(self, f"_{key}")()
        elif key.startswith("build_"):
            self[key] = self._building(self[key.removeprefix("build_")])
        if not self.get(key):
            raise LookupError(key)
        return self[key]

    def renamed(self, name: str) -> str:
        return NEW + name.removeprefix(self.model.prefix)

    def _building(self, name: str) -> str:
        init = self.model.method(name, "__init__")
        return f"def __init__({self.model.signature(init)}):\n        super().__init__({arguments_of(init)})"

    def _build_anew(self) -> str:
        init = ast.unparse(self.model.qualified(self.model.method(self["name"], "__init__")))
        anew = init.replace("super().__init__()", "nn.Module.__init__(self)")
        return anew.replace("\n", "\n    ") if anew != init else ""

    def _forwarding(self, changed: str) -> str:
        forward = self.model.method(self["name"], "forward")
        passed = arguments_of(forward, changed)
        call = f"def forward({self.model.signature(forward)}):\n        return super().forward({passed})"
        return _argument(self.model, self["name"]) and call

    def _halve(self) -> str:
        return self._forwarding("{} * 0.5")

    def _gain(self) -> str:
        return self._forwarding("{} * self.gain")

    def _whole(self) -> str:
        name, node = self["name"], self.model.classes[self["name"]]
        text = ast.unparse(self.model.qualified(node)).partition(f"class {name}")[2]
        text = f"class {self['new_name']}{text}"
        read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        conditional = any(self.model.imports.get(name) == "" for name in read)
        return "" if conditional or re.search(rf"\b{name}\b", text) else text

    def _passed(self) -> str:
        return _passed(self.model, self["name"])

    def _all_passed(self) -> str:
        return "\n".join(_passed(self.model, name) for name in self.model.classes)

    def _all_renamed(self) -> str:
        return "\n".join(
            f"class {self.renamed(n)}(hf.{n}):\n    pass" for n in self.model.renamable
        )

    def _other_head(self) -> str:
        heads = [name for name in self.model.public if re.search("For[A-Z]", name)]
        return self.random.choice(heads)

    def _width(self) -> str:
        width = "config.hidden_size"
        return width if width in ast.unparse(self.model.classes[self["base"]]) else ""

    def _owner(self) -> str:
        """A class whose `__init__` makes a `name` of its own parameters."""
        for owner in sorted({*self.model.renamable} & self.model.reachable(self["head"])):
            for init in self.model.classes[owner].body:
                for node in init.body if getattr(init, "name", "") == "__init__" else ():
                    text = ast.unparse(node)
                    match = re.fullmatch(rf"(self\.\w+) = {self['name']}\((.*)\)", text)
                    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                    if match and read <= {self["name"], *(a.arg for a in init.args.args)}:
                        self["target"], self["built"] = match.groups()
                        return owner
        return ""

    def _second(self) -> str:
        other, name = self.random.choice(_pairs(self.model, self["name"]))
        package, _, module = other.module.rpartition(".")
        self["second_import"] = f"from {package} import {module} as second"
        return name

    def _second_import(self) -> str:
        return self["second"] and self["second_import"]

    def _function(self) -> str:
        read = sorted(self.model.reachable(self["head"]))
        nodes = [self.model.definitions[name] for name in read]
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.args.args]
        known = [f for f in functions if any(a.arg in HALVED for a in f.args.args)]
        chosen = self.random.choice(known or functions)
        node = self.model.qualified(chosen)
        node.decorator_list = []
        names = [a.arg for a in node.args.args]
        first = next((n for n in HALVED if n in names), "")
        line = f"{first} = {first} * 0.5" if first else f"{names[0]} = {names[0]}"
        node.body.insert(0, ast.parse(line).body[0])
        return ast.unparse(node)

    def _config(self) -> str:
        for node in self.model.classes[self["pretrained"]].body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "config":
                name = ast.unparse(node.annotation)
                return (
                    name if name.startswith(self["prefix"]) and name in self.model.imports else ""
                )
        return ""

    def _config_import(self) -> str:
        return self.model.imports[self["config"]]

    def _config_argument(self) -> str:
        init = self.model.method(self["name"], "__init__")
        return "config" if "config" in [a.arg for a in init.args.args] else ""

    def _base_forward(self) -> str:
        return self.model.signature(self.model.method(self["base"], "forward"))

    def _base_arguments(self) -> str:
        return arguments_of(self.model.method(self["base"], "forward"))

    def _returned(self) -> str:
        returns = self.model.method(self["base"], "forward").returns
        names = re.findall(r"\w*Output\w*", ast.unparse(returns)) if returns else []
        return "".join(names[:1])

    def _own_output(self) -> str:
        return self["returned"] if self["returned"] in self.model.classes else ""

    def _shared_output(self) -> str:
        return self["returned"] if self["returned"] in self.model.imports else ""

    def _output_import(self) -> str:
        return self.model.imports[self["shared_output"]]


@cache
def _passed(model: Model, name: str) -> str:
    """A class with each method passed to `super()`; "" where it has none."""
    node, methods = model.classes[name], []
    defined = [m for m in node.body if isinstance(m, ast.FunctionDef)]
    for member in defined:
        decorators = [ast.unparse(d) for d in member.decorator_list]
        special = member.name.startswith("__") and member.name != "__init__"
        twice = [m.name for m in defined].count(member.name) > 1
        if special or twice or "staticmethod" in decorators:
            continue  # `super()` does not fit, or another definition belongs to it
        kept = "".join(f"    @{d}\n" for d in decorators if d in ("classmethod", "property"))
        call = "" if "property" in decorators else f"({arguments_of(member)})"
        methods.append(
            f"{kept}    def {member.name}({model.signature(member)}):\n"
            f"        return super().{member.name}{call}\n"
        )
    return f"class {name}(hf.{name}):\n" + "\n".join(methods) if methods else ""


@cache
def _pairs(model: Model, name: str) -> list[tuple[Model, str]]:
    """Classes of other models that are built, called and configured as `name` is."""
    pairs, word = [], name.removeprefix(model.prefix)
    read = set(re.findall(r"config\.(\w+)", model.text))
    for other in find_models():
        theirs = other.prefix + word if other.name in SECOND and other != model else ""
        if theirs not in other.classes if theirs else True:
            continue
        try:
            called = [
                [of.signature(of.method(n, m)) for m in ("__init__", "forward")]
                for of, n in ((model, name), (other, theirs))
            ]
        except LookupError:
            continue
        parts = [other.definitions[n] for n in other.reachable(theirs) if n in other.definitions]
        settings = re.findall(r"config\.(\w+)", "\n".join(map(ast.unparse, parts)))
        if called[0] == called[1] and read >= {*settings}:
            pairs.append((other, theirs))
    return pairs
