"""The moe part: a new model, whose layers have a mixture of experts instead of their FFN.

It is written for dense causal and masked language models with one configuration and one kind of
layer.  Sizes are not known before a model is built: width, bias and activation are read from the
FFN that the `__init__` of the parent creates.
"""

from __future__ import annotations

import ast

from patchgen.author.anatomy.attention import Attentions
from patchgen.author.anatomy.code import called, dotted, last, walk
from patchgen.author.anatomy.experts import experts
from patchgen.author.anatomy.ffn import FeedForward, feed_forwards, role_of
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.layers import CHECKPOINTED, Layers
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.edits import edit
from patchgen.author.declare.loss import Head, heads
from patchgen.author.declare.variant import Contribution, Declared, Missing, NewModel
from patchgen.compiler.edits.pattern import find

SAYS = (
    "A mixture of experts stands in the place of the FFN: a new model, `{model_type}`, whose "
    "`from_pretrained` takes checkpoints of the dense one (`num_experts=8, num_experts_per_tok=2`) "
    "and computes the same until the first step. Options are those of "
    "`patchgen.parts.moe.MixtureOptions`."
)
LANGUAGE = ("ForCausalLM", "ForMaskedLM", "LMHeadModel")
INDICES = ("layer_idx", "layer_id", "layer_num", "layer_number")
RECORDING = {"capture_outputs", "check_model_inputs"}
# The attribute with the number of output features, by class of linear layer.
WIDTHS = {"Linear": "out_features", "Conv1D": "nf"}
# The functions of torch that are activations of transformers by the same name.
OF_TORCH = ("gelu", "relu", "silu", "sigmoid", "tanh")


class NoMixture(Exception):
    """Why the part cannot be written; without a node, the file has nothing to change."""

    def __init__(self, node: ast.AST | None, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def moe(module: Module) -> Contribution:
    """What the part declares for `module`."""
    try:
        return _written(module)
    except NoMixture as no:
        return Contribution(
            "moe", missing=(Missing(module.at(no.node or module.tree), no.what, True),)
        )


def _written(module: Module) -> Contribution:
    language = [one for one in heads(module) if one.owner.name.endswith(LANGUAGE)]
    if not language:
        raise NoMixture(None, "no causal or masked language model takes a loss here")
    if experts(module):
        raise NoMixture(None, "the model is a mixture of experts already")
    config = _configuration(module)
    layers = Layers(module, Attentions(module))
    ffn = _network(module, layers)
    layer, weights = _layer(module, ffn)
    heads_, bases, missing = _heads(module, language)
    # A recompute chooses the same experts.
    checkpoints = all(layer.descends(CHECKPOINTED) for layer in layers.classes)
    mixins = (*["ChooseOnce"] * checkpoints, "MixtureModel")
    base = Declared(module.pretrained[0].name, mixins=mixins, members=(weights,))
    declared = (layer, base, *bases, *heads_)
    model = _new_model(module, config, tuple(one.name for one in declared[1:]))
    for one in declared:
        if not one.name.startswith(model.old_prefix):
            what = f"{one.name} does not begin with {model.old_prefix}, as its model does"
            raise NoMixture(module.classes[one.name].node, what)
    says = SAYS.format(model_type=model.model_type)
    return Contribution("moe", says, declared, tuple(missing), model=model)


def _configuration(module: Module) -> str:
    """The one configuration of the module."""
    if len(module.pretrained) != 1:
        raise NoMixture(module.tree, "there is not one class below PreTrainedModel in this file")
    names: dict[str, ast.AST] = {}
    for node in (node for owner in module.classes.values() for node in owner.node.body):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id="config"), annotation=value)
                | ast.Assign(targets=[ast.Name(id="config_class")], value=value)
            ):
                names.setdefault(ast.unparse(value), node)
    if len(names) != 1:
        second = list(names.values())[1] if names else module.pretrained[0].node
        several = ", ".join(names) or "no configuration"
        raise NoMixture(
            second, f"the models of this file have several configurations or none: {several}"
        )
    name = next(iter(names))
    if not module.imports.get(name, "").startswith(".configuration_"):
        raise NoMixture(names[name], f"{name} is not of the folder of this file")
    return name


def _network(module: Module, layers: Layers) -> FeedForward:
    """The FFN of the layers, which are of one class and are told their index."""
    networks = [*feed_forwards(layers)]
    if not layers.classes:
        raise NoMixture(module.tree, "no list of layers that attend is gone through in this file")
    layer, *more = layers.classes
    if not networks:
        raise NoMixture(layer.node, f"{layer.name} holds no FFN in a form that is known")
    if more:
        names = " and ".join(one.name for one in layers.classes)
        raise NoMixture(more[0].node, f"there are several kinds of layers: {names}")
    if len(networks) > 1:
        raise NoMixture(layer.node, f"{layer.name} holds more than one FFN")
    init = layer.method("__init__")
    if init is None or "config" not in _parameters(init):
        raise NoMixture(init or layer.node, f"{layer.name} is not told its configuration")
    if not _index(init):
        raise NoMixture(init, f"{layer.name} is not told its index")
    table = module.folder.parents[1] / "conversion_mapping.py" if module.folder else None
    if table is not None and table.is_file():
        # Experts would not get a weight that transformers makes of other tensors of a checkpoint.
        if f'"{module.model}": ' in table.read_text(encoding="utf-8"):
            raise NoMixture(layer.node, f"transformers converts the checkpoints of {module.model}")
    return networks[0]


def _parameters(method: ast.FunctionDef) -> list[str]:
    return [arg.arg for arg in (*method.args.posonlyargs, *method.args.args)][1:]


def _index(init: ast.FunctionDef) -> str:
    """The parameter by which a layer is told whether it has experts."""
    return next((name for name in INDICES if name in _parameters(init)), "")


def _layer(module: Module, ffn: FeedForward) -> tuple[Declared, str]:
    """(the layer with a mixture, the table of the dense weights that its experts get)."""
    names = {part: code.removeprefix("self.") for part, code in ffn.parts.items()}
    ups = [names[part] for part in ("gate", "up") if part in names]
    linear = [(ffn.owner, name) for name in ups]
    # Before a dropout the mixture stands in a Sequential, which has no attribute of that name.
    dropout = names.get("drop") or names.get("rate", "")
    before = "" if dropout else f"{ffn.attribute}."
    idle = ""
    if "down" in names:
        down = before + names["down"]
        linear.append((ffn.owner, names["down"]))
    else:
        attribute, second, name = _second(module, ffn)
        down = idle = f"{attribute}.{name}"
        linear.append((second, name))
    made = [last(called(value)) for owner, name in linear for value in owner.attributes[name]]
    kinds = set(made)
    if len(made) != len(linear) or len(kinds) != 1 or not kinds <= WIDTHS.keys():
        what = f"the linear layers of {ffn.owner.name} are of a kind that experts have not: "
        raise NoMixture(
            ffn.owner.node, what + (" and ".join(sorted(kinds - WIDTHS.keys())) or "several")
        )
    gated = ffn.form in ("gated", "halves")
    own = f"self.{ffn.attribute}"
    halves = " // 2" if ffn.form == "halves" else ""
    mixture = (
        f"Mixture(config, gated={gated}, bias={own}.{ups[0]}.bias is not None, "
        f"inner={own}.{ups[0]}.{WIDTHS[made[0]]}{halves}, activation={_activation(ffn)})"
    )
    if dropout:
        kept = f"{own}.{dropout}" if "drop" in names else f"nn.Dropout({own}.{dropout})"
        mixture = f"nn.Sequential({mixture}, {kept})"
    init = ffn.layer.method("__init__")
    assert init is not None
    parameters = _parameters(init)
    defaults = dict(zip(parameters[::-1], init.args.defaults[::-1], strict=False))
    signature = [
        f"{name}={ast.unparse(defaults[name])}" if name in defaults else name for name in parameters
    ]
    lines = [
        f"def __init__(self, {', '.join(signature)}):",
        f"    super().__init__({', '.join(parameters)})",
        f"    if has_experts(config, {_index(init)}):",
        f"        {own} = {mixture}",
        *([f"        self.{idle} = nn.Identity()"] if idle else []),
    ]
    layer = Declared(ffn.layer.name, members=("\n".join(lines),))
    table = ["_dense_weights = {"]
    of_up, place = [before + name for name in ups], "0" if dropout else ffn.attribute
    for weight, sources in (("gate_up_proj" if gated else "up_proj", of_up), ("down_proj", [down])):
        for end, kind in (("", "weight"), ("_bias", "bias")):
            dense = ", ".join(f'"{name}.{kind}"' for name in sources)
            table.append(f'    "{place}.experts.{weight}{end}": ({dense},),')
    table.append("}")
    if made[0] == "Conv1D":
        table.append("_dense_weights_transposed = True")
    return layer, "\n".join(table)


def _second(module: Module, ffn: FeedForward) -> tuple[str, Class, str]:
    """The module of the layer that takes the output of the first half: it begins with a Linear."""
    shape = ast.parse(f"y = self.{ffn.attribute}(x)\nz = second(y, ...)").body
    for method in ffn.layer.own.values():
        for match in find(shape, method, {"x", "y", "z", "second"}):
            attribute = last(dotted(match.bound.holes["second"]))
            for owner in (module.classes.get(name) for name in held(ffn.layer, attribute)):
                forward = owner.method("forward") if owner is not None else None
                if owner is None or forward is None:
                    continue
                name = last(called(getattr(forward.body[0], "value", None)))
                if role_of(owner, name) == "L":
                    return attribute, owner, name
    raise NoMixture(ffn.layer.node, f"the second half of the FFN of {ffn.layer.name} is not found")


def _activation(ffn: FeedForward) -> str:
    act, owner = ffn.parts["act"], ffn.owner
    if not act.startswith("self."):
        package, _, function = act.rpartition(".")
        if package in ("F", "nn.functional", "torch.nn.functional") and function in OF_TORCH:
            return repr(function)
        raise NoMixture(owner.node, f"`{act}` is not known as an activation")
    name = act.removeprefix("self.")
    # BERT takes a name or a function; other activations that are chosen may have weights.
    by_kind = "isinstance(" in ast.unparse(owner.node)
    if len(owner.attributes[name]) > 1 + by_kind:
        raise NoMixture(owner.node, f"the activation of {owner.name} is made in several ways")
    return f"self.{ffn.attribute}.{name}"


def _new_model(module: Module, config: str, public: tuple[str, ...]) -> NewModel:
    """The names of the new model; `qwen3_moe` and others are those of models of transformers."""
    old, folder = config.removesuffix("Config"), module.model.replace("_", "")
    if old.lower().startswith(folder) and len(old) > len(folder):
        what = f"the classes of {module.model} begin with {old}, and not with its name"
        raise NoMixture(module.pretrained[0].node, what)
    file = module.imports[config].split(".")[1]
    return NewModel(old, f"{old}Mixture", f"{module.alias}_mixture", f"{file}.{config}", public)


def _heads(
    module: Module, language: list[Head]
) -> tuple[list[Declared], list[Declared], list[Missing]]:
    """(the heads with the losses of their routers, their models, the heads without an edit)."""
    declared: dict[str, Declared] = {}
    bases: dict[str, Declared] = {}
    missing = []
    for head in language:
        try:
            outputs, base = _model(module, head)
            declared[head.owner.name] = _head(head, outputs)
            bases[base.name] = Declared(base.name)
        except NoMixture as no:
            what = f"{head.owner.name}: {no.what}"
            missing.append(Missing(module.at(no.node or head.method), what))
    if not declared:
        raise NoMixture(language[0].method, missing[0].what)
    return list(declared.values()), list(bases.values()), missing


def _head(head: Head, outputs: str) -> Declared:
    """The head with the losses of its routers in its loss."""
    method = head.method
    returned = [node for node in walk(method.body, ast.Return) if node.value is not None]
    if len(returned) != 1 or not called(returned[0].value):
        raise NoMixture(method, "what it returns is not one output in one place")
    if "attention_mask" not in {arg.arg for arg in walk(method.args, ast.arg)}:
        raise NoMixture(
            method, "it has no `attention_mask`, by which routers' losses leave padding out"
        )
    rest = method.args.kwarg.arg if method.args.kwarg is not None else ""
    if (outputs, rest) == ("outputs", "kwargs"):
        return Declared(head.owner.name, mixins=("MixtureHead",))
    arguments = ["self", "output(...)", outputs, "attention_mask", "labels"]
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
            is_model = name.endswith(("Model", "Decoder", "Transformer"))
            if owner is None or forward is None or not is_model:
                continue
            decorators = {last(called(one) or dotted(one)) for one in forward.decorator_list}
            if not decorators & RECORDING:
                what = f"{name} does not record outputs of its modules, which the loss needs"
                raise NoMixture(forward, what)
            return target.id, owner
    raise NoMixture(head.method, "the model that it stands on is not found")
