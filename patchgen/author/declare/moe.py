"""The moe part: a new model, whose layers have a mixture of experts instead of their FFN.

It is written for dense causal and masked language models with one configuration and one kind of
layer.  Sizes are not known before a model is built: width, bias and activation are read from the
FFN that the `__init__` of the parent creates.
"""

from __future__ import annotations

import ast

from patchgen.author.anatomy.attention import Attentions, Reason
from patchgen.author.anatomy.code import called, last, walk
from patchgen.author.anatomy.conversions import makes_weight
from patchgen.author.anatomy.experts import experts
from patchgen.author.anatomy.ffn import FeedForward, feed_forwards
from patchgen.author.anatomy.heads import Head, heads
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import Layers, has_checkpointed
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.dense import Dense, Unfit, dense
from patchgen.author.declare.edits import edit
from patchgen.author.declare.variant import Contribution, Declared, Missing, NewModel

SAYS = (
    "A mixture of experts stands in the place of the FFN: a new model, `{model_type}`, whose "
    "`from_pretrained` takes checkpoints of the dense one (`num_experts=8, num_experts_per_tok=2`) "
    "and computes the same until the first step. Options are those of "
    "`patchgen.parts.moe.MixtureOptions`."
)
LANGUAGE = ("ForCausalLM", "ForMaskedLM", "LMHeadModel")
INDICES = ("layer_idx", "layer_id", "layer_num", "layer_number")
RECORDING = ("capture_outputs", "check_model_inputs")


def moe(module: Module) -> Contribution:
    """What the part declares for `module`."""
    try:
        return _written(module)
    except (NoMixture, Unfit) as no:
        reason: Reason | NoMixture = no.reason if isinstance(no, Unfit) else no
        at = module.at(module.tree if reason.node is None else reason.node)
        return Contribution("moe", missing=(Missing(at, reason.what, True),))


def _written(module: Module) -> Contribution:
    found = [one for one in heads(module) if one.owner.name.endswith(LANGUAGE)]
    if not found:
        raise NoMixture(None, "no causal or masked language model takes a loss here")
    if experts(module):
        raise NoMixture(None, "the model is a mixture of experts already")
    config = _configuration(module)
    layers = Layers(module, Attentions(module))
    ffn, network = _network(module, layers)
    heads_, missing = declare_heads(module, found)
    if not heads_:
        raise NoMixture(found[0].method, missing[0].what)
    base = Declared(module.pretrained[0].name)
    bases = declare_bases(module, found, heads_)
    model = _new_model(module, config, tuple(one.name for one in (base, *bases, *heads_)))
    _insist_on_numbers(layers, ffn.layer)
    own = [_layer(ffn.layer, network), _base(base.name, network, _checkpoints(layers))]
    declared = [*own, *bases, *heads_]
    for one in declared:
        if not one.name.startswith(model.old_prefix):
            what = f"{one.name} does not begin with {model.old_prefix}, as its model does"
            raise NoMixture(module.classes[one.name].node, what)
    says = SAYS.format(model_type=model.model_type)
    return Contribution(
        "moe",
        says,
        tuple(declared),
        _imports(module, config, declared),
        tuple(missing),
        model=model,
    )


def _configuration(module: Module) -> str:
    """The one configuration of the module."""
    if len(module.pretrained) != 1:
        raise NoMixture(module.tree, "there is not one class below PreTrainedModel in this file")
    names: dict[str, ast.AST] = {}
    for owner in module.classes.values():
        for node in owner.node.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id="config"), annotation=annotation):
                    names.setdefault(ast.unparse(annotation), node)
                case ast.Assign(targets=[ast.Name(id="config_class")], value=value):
                    names.setdefault(ast.unparse(value), node)
    if len(names) != 1:
        second = list(names.values())[1] if names else module.pretrained[0].node
        names_found = ", ".join(names) or "no configuration"
        raise NoMixture(
            second, f"the models of this file have several configurations or none: {names_found}"
        )
    name = next(iter(names))
    place = module.imports.get(name, "")
    if not place.startswith(".configuration_"):
        raise NoMixture(names[name], f"{name} is not of the folder of this file")
    return name


def _network(module: Module, layers: Layers) -> tuple[FeedForward, Dense]:
    """The FFN of the layers, which are of one class."""
    found = [*feed_forwards(layers)]
    if not layers.classes:
        raise NoMixture(module.tree, "no list of layers that attend is gone through in this file")
    if not found:
        raise NoMixture(
            layers.classes[0].node, f"{layers.classes[0].name} holds no FFN in a form that is known"
        )
    if len(layers.classes) > 1:
        names = " and ".join(one.name for one in layers.classes)
        raise NoMixture(layers.classes[1].node, f"there are several kinds of layers: {names}")
    if len(found) > 1:
        raise NoMixture(found[1].layer.node, f"{found[1].layer.name} holds more than one FFN")
    init = found[0].layer.method("__init__")
    if init is None or "config" not in _parameters(init):
        raise NoMixture(
            init or found[0].layer.node, f"{found[0].layer.name} is not told its configuration"
        )
    network = dense(module, found[0])
    for layer in (*network.up, network.down):
        if makes_weight(module, f"{layer}.weight"):
            what = f"transformers makes `{layer}.weight` of other tensors of a checkpoint"
            raise NoMixture(found[0].layer.node, f"{what}, so the experts would not get them")
    return found[0], network


def _parameters(method: ast.FunctionDef) -> list[str]:
    return [arg.arg for arg in (*method.args.posonlyargs, *method.args.args)][1:]


def _index(init: ast.FunctionDef) -> str | None:
    return next((name for name in INDICES if name in _parameters(init)), None)


def _insist_on_numbers(layers: Layers, layer: Class) -> None:
    """Refuse layers that are not told their index, by which a mixture is chosen for each."""
    init = layer.method("__init__")
    assert init is not None
    index = _index(init)
    for one in layers.lists:
        makes = one.owner.own.get("__init__")
        body = makes.body if makes is not None else []
        calls = [call for call in walk(body, ast.Call) if called(call) == layer.name]
        is_given = index is not None and all(_gives(call, init, index) for call in calls)
        if layer in one.layers and not is_given and (index is None or not _is_needed(init, index)):
            raise NoMixture(makes or one.owner.node, f"{layer.name} is not told its index")


def _is_needed(method: ast.FunctionDef, name: str) -> bool:
    names = _parameters(method)
    return names.index(name) < len(names) - len(method.args.defaults)


def _gives(call: ast.Call, method: ast.FunctionDef, name: str) -> bool:
    """Whether `call` gives the parameter `name` of `method`."""
    if any(isinstance(arg, ast.Starred) for arg in call.args) or any(
        one.arg in (name, None) for one in call.keywords
    ):
        return True
    return len(call.args) > _parameters(method).index(name)


def _layer(layer: Class, network: Dense) -> Declared:
    init = layer.method("__init__")
    assert init is not None
    names = _parameters(init)
    given = dict(zip(names[::-1], init.args.defaults[::-1], strict=False))
    own = [f"{one}={ast.unparse(given[one])}" if one in given else one for one in names]
    index = _index(init)
    signature = ", ".join(own)
    arguments = [f"gated={network.gated}", f"bias={network.bias}", f"inner={network.width}"]
    arguments.append(f"activation={network.activation}")
    mixture = f"Mixture(config, {', '.join(arguments)})"
    mixture = f"nn.Sequential({mixture}, {network.dropout})" if network.dropout else mixture
    lines = [
        f"def __init__(self, {signature}):",
        f"    super().__init__({', '.join(names)})",
        f"    if has_experts(config, {index}):",
        f"        self.{network.attribute} = {mixture}",
        *(f"        {one} = nn.Identity()" for one in network.idle),
    ]
    return Declared(layer.name, members=("\n".join(lines),))


def _base(name: str, network: Dense, checkpoints: bool) -> Declared:
    experts_up = "gate_up_proj" if network.gated else "up_proj"
    lines = ["_dense_weights = {"]
    for own, of_dense in ((experts_up, network.up), ("down_proj", (network.down,))):
        for end, kind in (("", "weight"), ("_bias", "bias")):
            sources = ", ".join(f'"{one}.{kind}"' for one in of_dense)
            lines.append(f'    "{network.place}.experts.{own}{end}": ({sources},),')
    lines.append("}")
    if network.transposed:
        lines.append("_dense_weights_transposed = True")
    mixins = (*(["ChooseOnce"] if checkpoints else []), "MixtureModel")
    return Declared(name, mixins=mixins, members=("\n".join(lines),))


def _checkpoints(layers: Layers) -> bool:
    """Whether the layers can be checkpointed: then a recompute must choose the same experts."""
    return all(has_checkpointed(layer) for layer in layers.classes)


def _new_model(module: Module, config: str, public: tuple[str, ...]) -> NewModel:
    """The names of the new model; `qwen3_moe` and others are those of models of transformers."""
    old, folder = config.removesuffix("Config"), module.model.replace("_", "")
    if old.lower().startswith(folder) and len(old) > len(folder):
        raise NoMixture(
            module.pretrained[0].node,
            f"the classes of {module.model} begin with {old}, and not with its name",
        )
    return NewModel(
        old,
        f"{old}Mixture",
        f"{module.alias}_mixture",
        f"{_config_file(module, config)}.{config}",
        public,
    )


def _config_file(module: Module, config: str) -> str:
    return module.imports[config].split(".")[1]


def _imports(module: Module, config: str, declared: list[Declared]) -> tuple[str, ...]:
    text = "\n".join(member for one in declared for member in one.members)
    mixins = {name for one in declared for name in one.mixins}
    used = {"Mixture", "MixtureModel", "MixtureOptions", "has_experts"} | (mixins & {"MixtureHead"})
    parent = ".".join(module.name.split(".")[:-1])
    lines = [
        "from huggingface_hub.dataclasses import strict",
        f"from {parent} import {_config_file(module, config)}",
    ]
    if "with_router_losses" in text:
        used.add("with_router_losses")
    if "@edit" in text:
        lines.append(f"from patchgen.edits import {'Hole, ' * (': Hole' in text)}edit, new, old")
    if "ChooseOnce" in mixins:
        lines.append("from patchgen.parts.checkpoint import ChooseOnce")
    if "nn." in text:
        lines.append("from torch import nn")
    return (*lines, f"from patchgen.parts.moe import {', '.join(sorted(used))}")


class NoMixture(Exception):
    """Why the part cannot be written; without a node, the file has nothing to change."""

    def __init__(self, node: ast.AST | None, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def declare_heads(module: Module, found: list[Head]) -> tuple[list[Declared], list[Missing]]:
    """(the heads with the losses of their routers, the heads for which there is no edit)."""
    declared: dict[str, Declared] = {}
    missing = []
    for head in found:
        try:
            declared[head.owner.name] = _head(module, head)
        except NoMixture as no:
            missing.append(
                Missing(module.at(no.node or head.method), f"{head.owner.name}: {no.what}")
            )
    return list(declared.values()), missing


def _head(module: Module, head: Head) -> Declared:
    """The head with the losses of its routers in its loss."""
    name, _ = _model(module, head)
    method = head.method
    returned = [node for node in walk(method.body, ast.Return) if node.value is not None]
    if (
        len(returned) != 1
        or not isinstance(returned[0].value, ast.Call)
        or not called(returned[0].value)
    ):
        raise NoMixture(
            returned[-1] if returned else method, "what it returns is not one output in one place"
        )
    if "attention_mask" not in {arg.arg for arg in walk(method.args, ast.arg)}:
        raise NoMixture(
            method, "it has no `attention_mask`, by which routers' losses leave padding out"
        )
    rest = method.args.kwarg.arg if method.args.kwarg is not None else ""
    if (name, rest) == ("outputs", "kwargs"):
        return Declared(head.owner.name, mixins=("MixtureHead",))
    arguments = ["self", "output(...)", name, "attention_mask", "labels"]
    arguments += [f'{rest}.get("num_items_in_batch")'] if rest else []
    new = f"return with_router_losses({', '.join(arguments)})"
    text = edit("add_the_router_losses", method, ["return output(...)"], [new], ["output"])
    return Declared(head.owner.name, members=(text,))


def _model(module: Module, head: Head) -> tuple[str, Class]:
    """(the name of the outputs, the class of the model) that the head uses.

    Raises NoMixture if that model does not record the outputs of its routers.
    """
    for node in walk(head.method.body, ast.stmt):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if not isinstance(target, ast.Name) or not called(value).startswith("self."):
            continue
        for name in held(head.owner, last(called(value))):
            owner = module.classes.get(name)
            forward = owner.method("forward") if owner is not None else None
            if (
                owner is None
                or forward is None
                or not owner.name.endswith(("Model", "Decoder", "Transformer"))
            ):
                continue
            if not any(
                last(called(one) or ast.unparse(one)) in RECORDING for one in forward.decorator_list
            ):
                what = f"{name} does not record outputs of its modules, which the loss needs"
                raise NoMixture(forward, what)
            return target.id, owner
    raise NoMixture(head.method, "the model that it stands on is not found")


def declare_bases(module: Module, found: list[Head], written: list[Declared]) -> list[Declared]:
    """The models that the heads use."""
    names = {one.name for one in written}
    owners = dict.fromkeys(
        _model(module, head)[1].name for head in found if head.owner.name in names
    )
    return [Declared(name) for name in owners]
