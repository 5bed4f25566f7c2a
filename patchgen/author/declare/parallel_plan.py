"""What models with fused layers declare: their mixins, and their plan for tensor parallelism.

    "layers.*.mlp.gate_proj": "colwise"
    "layers.*.mlp.up_proj": "colwise"     ->   "layers.*.mlp.gate_up_proj": "colwise_gather_output"
    "layers.*.mlp.down_proj": "rowwise"        "layers.*.mlp.down_proj": "rowwise_split_input"

The new plan is written out where a file has one configuration and one base model.  Elsewhere, a
mixin makes it when the model is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from patchgen.author.anatomy.code import constant, dotted, last, walk
from patchgen.author.anatomy.conversions import find_configurations, is_converted
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.anatomy.projections import Shared
from patchgen.author.declare.variant import Declared

TP, EP = "base_model_tp_plan", "base_model_ep_plan"  # the attributes of configurations
# The name of a fused layer, and each group of layers that becomes one of this name.
Fused = Sequence[tuple[str, Shared]]
# Styles of rules that can be replaced, and by what, as `gather_fused` of patchgen.parts.fused does.
# A layer that is whole in every process needs no rule.
GATHERED = {
    "colwise": "colwise_gather_output",
    "rowwise": "rowwise_split_input",
    "replicated_with_grad_allreduce": "",
}


def declare_models(module: Module, fused: Fused) -> tuple[Declared, ...]:
    """What the models of `module` declare.

    It depends on the plan in the configuration of the parent, and on whether transformers converts
    its checkpoints.
    """
    known = ("KnownConversions",) if is_converted(module) else ()
    mixin, members = _choose(module, fused)
    return tuple(
        Declared(owner.name, mixins=(*known, mixin), members=members) for owner in module.pretrained
    )


def _choose(module: Module, fused: Fused) -> tuple[str, tuple[str, ...]]:
    """The mixin of the models, and their members."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in find_configurations(module)]
    rules = dict(_rules(trees, TP))
    owners = _owners(rules, fused)
    if not owners:
        return "FusedProjections", ()
    beside = {style for path, style in rules.items() if path.startswith(owners)}
    if not beside <= GATHERED.keys():
        return "WholeProjections", ()
    of_experts = dict(_rules(trees, EP))
    embeddings = _rules_of_embeddings(module)
    is_simple = _is_literal(trees) and _are_all_fused(module, fused)
    if not is_simple or embeddings is None or _owners(of_experts, fused):
        return "SplitProjections", ()
    plan = embeddings | dict(_gathered(rules, fused, owners))
    return "FusedProjections", (_written(plan),)


def _owners(rules: Mapping[str, str], fused: Fused) -> tuple[str, ...]:
    """The paths of the modules with fused layers, each with a dot behind it."""
    parts = {part for _, group in fused for part in group.names}
    found = []
    for path in rules:
        owner, _, name = path.rpartition(".")
        if name in parts:
            found.append(f"{owner}.")
    return tuple(dict.fromkeys(found))


def _gathered(
    rules: Mapping[str, str], fused: Fused, owners: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """The rules of the new plan."""
    fused_names = {part: name for name, group in fused for part in group.names}
    for path, style in rules.items():
        owner, _, part = path.rpartition(".")
        if not path.startswith(owners):
            yield path, style
        elif part in fused_names:
            yield f"{owner}.{fused_names[part]}", GATHERED["colwise"]
        elif GATHERED[style]:
            yield path, GATHERED[style]


def _written(plan: Mapping[str, str]) -> str:
    lines = "\n".join(f'        "{path}": "{style}",' for path, style in plan.items())
    return (
        "def post_init(self):\n"
        "    super().post_init()\n"
        "    self.base_model._tp_plan = {  # the output of fused layers is gathered, as in Phi-3\n"
        f"{lines}\n"
        "    }"
    )


def _is_literal(trees: Sequence[ast.Module]) -> bool:
    """Whether there is one configuration, and its plan is written out."""
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    plans = [node.value for tree in trees for node in walk(tree, ast.stmt) if _assigns(node, TP)]
    match [one for one in classes if one.name.endswith("Config")], plans:
        case [_], [ast.Dict(keys=keys)]:
            return all(isinstance(key, ast.Constant) for key in keys)
    return False


def _are_all_fused(module: Module, fused: Fused) -> bool:
    """Whether every class that creates one of the parts has it in a layer of one name."""
    fused_names: dict[str, set[str]] = {}
    for name, group in fused:
        for part in group.names:
            fused_names.setdefault(part, set()).add(name)
    groups = {(group.owner.name, part) for _, group in fused for part in group.names}
    creating = [one for one in module.classes.values() if "__init__" in one.own]
    parts = {(one.name, part) for one in creating for part in fused_names if part in one.attributes}
    return parts <= groups and all(len(names) == 1 for names in fused_names.values())


def _rules_of_embeddings(module: Module) -> dict[str, str] | None:
    """The rule that transformers adds to the plan of the one base model; None if there are more."""
    match _base_models(module):
        case [base] if "_tp_plan" not in base.settings:
            made = base.makes("embed_tokens")
        case _:
            return None
    if "embed_tokens" not in base.attributes:
        return {}
    is_embedding = all(
        name == "Embedding"
        or (name in module.classes and module.classes[name].descends("Embedding"))
        for name in made
    )
    return {"embed_tokens": "embedding_rowwise"} if made and is_embedding else None


def _base_models(module: Module) -> list[Class]:
    """The models that are no head on another one."""
    found = []
    for one in module.classes.values():
        bases = [base for base in module.pretrained if one.descends(base.name)]
        prefixes = [constant(base.settings.get("base_model_prefix")) for base in bases]
        is_head = any(last(base).startswith("GenericFor") for base in one.bases) or any(
            prefix in one.attributes for prefix in prefixes
        )
        if bases and not is_head:
            found.append(one)
    return found


def _rules(trees: Sequence[ast.Module], plan: str) -> Iterator[tuple[str, str]]:
    """(path of a layer, style) of every `plan` in the configurations."""
    for tree in trees:
        for node in walk(tree, ast.stmt):
            if _assigns(node, plan):
                for path, style in _entries(node.value):
                    yield path, str(style)


def _assigns(node: ast.stmt, plan: str) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    match node:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return dotted(target) == plan
    return False


def _entries(value: ast.expr | None) -> Iterator[tuple[str, object]]:
    match value:
        case ast.Dict(keys=keys, values=styles):
            for key, style in zip(keys, styles, strict=True):
                if key is None:  # `**other`
                    yield from _entries(style)
                else:
                    yield _path(key), constant(style)
        case ast.DictComp(key=key, value=style):
            yield _path(key), constant(style)


def _path(key: ast.expr) -> str:
    """The text of `key`; of an f-string with the code of what is filled in."""
    if isinstance(key, ast.JoinedStr):
        parts = (
            part.value if isinstance(part, ast.FormattedValue) else part for part in key.values
        )
        return "".join(str(constant(part) or ast.unparse(part)) for part in parts)
    return str(constant(key))
