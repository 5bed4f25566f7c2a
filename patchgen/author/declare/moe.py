"""The moe part: a new model, whose layers have a mixture of experts instead of their FFN.

It is written for dense causal and masked language models with one configuration and one kind of
layer.  Sizes are not known before a model is built: width, bias and activation are read from the
FFN that the `__init__` of the parent creates.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from patchgen import disk
from patchgen.author.anatomy.attention import Layers, experts
from patchgen.author.anatomy.code import called, last, walk
from patchgen.author.anatomy.ffn import FeedForward, feed_forwards, role_of
from patchgen.author.anatomy.module import Class, Module, Unfit
from patchgen.author.declare.edits import edit, init_lines
from patchgen.author.declare.loss import Head, heads
from patchgen.author.declare.part import Part
from patchgen.author.declare.variant import Contribution, Declared, Missing, NewModel, refusing
from patchgen.compiler.edits.pattern import find
from patchgen.facts.modules import CHECKPOINTED
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import dotted, list_positional

if TYPE_CHECKING:
    from patchgen.verifying.parts.part_check import PartCheck

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


@refusing
def moe(module: Module) -> Contribution:
    """What the part declares for `module`."""
    language = [head for head in heads(module) if head.owner.name.endswith(LANGUAGE)]
    if not language:
        raise Unfit(None, "no causal or masked language model takes a loss here")
    if experts(module):
        raise Unfit(None, "the model is a mixture of experts already")
    prefix, file = _configuration(module)
    layers = Layers(module)
    layer, weights = _layer(module, *_network(module, layers))
    declared: dict[str, Declared] = {}  # the heads with the losses of their routers
    models = {}
    missing = []
    for head in language:
        try:
            outputs, model_class = _model(module, head)
            declared[head.owner.name] = _head(head, outputs)
            models[model_class.name] = Declared(model_class.name)
        except Unfit as unfit:
            at = module.at(unfit.node or head.method)
            missing.append(Missing(at, f"{head.owner.name}: {unfit.why}"))
    if not declared:
        raise Unfit(language[0].method, missing[0].what)
    # A recompute chooses the same experts.
    checkpoints = all(layer.descends(CHECKPOINTED) for layer in layers.classes)
    mixins = ("ChooseOnce", "MixtureModel") if checkpoints else ("MixtureModel",)
    base = Declared(module.pretrained[0].name, mixins, members=(weights,))
    public = (base, *models.values(), *declared.values())
    for one in (layer, *public):
        if not one.name.startswith(prefix):
            what = f"{one.name} does not begin with {prefix}, as its model does"
            raise Unfit(module.classes[one.name].node, what)
    # `qwen3_moe` and others are names of models of transformers.
    names = tuple(item.name for item in public)
    model = NewModel(prefix, f"{module.alias}_mixture", file, names)
    says = SAYS.format(model_type=model.model_type)
    return Contribution("moe", says, (layer, *public), tuple(missing), model=model)


def _configuration(module: Module) -> tuple[str, str]:
    """(what the classes of the module begin with, the file of its one configuration)."""
    if len(module.pretrained) != 1:
        raise Unfit(module.tree, "there is not one class below PreTrainedModel in this file")
    places: dict[str, ast.AST] = {}  # where each configuration is named first
    for owner in module.classes.values():
        for node in owner.node.body:
            match node:
                case (
                    ast.AnnAssign(target=ast.Name(id="config"), annotation=value)
                    | ast.Assign(targets=[ast.Name(id="config_class")], value=value)
                ):
                    places.setdefault(ast.unparse(value), node)
    if len(places) != 1:
        second = list(places.values())[1] if places else module.pretrained[0].node
        several = ", ".join(places) or "no configuration"
        what = f"the models of this file have several configurations or none: {several}"
        raise Unfit(second, what)
    ((name, place),) = places.items()
    file = ""
    for statement in walk(module.tree.body, ast.ImportFrom):
        if statement.level == 1 and name in {alias.name for alias in statement.names}:
            file = statement.module or ""
    if not file.startswith("configuration_"):
        raise Unfit(place, f"{name} is not of the folder of this file")
    prefix = name.removesuffix("Config")
    folder = module.model.replace("_", "")
    if prefix.lower().startswith(folder) and len(prefix) > len(folder):
        what = f"the classes of {module.model} begin with {prefix}, and not with its name"
        raise Unfit(module.pretrained[0].node, what)
    return prefix, file


def _network(module: Module, layers: Layers) -> tuple[FeedForward, ast.FunctionDef, str]:
    """The FFN of the layers, the `__init__` of their one class, its parameter that is an index."""
    networks = [*feed_forwards(layers)]
    if not layers.classes:
        raise Unfit(module.tree, "no list of layers that attend is gone through in this file")
    layer, *more = layers.classes
    if not networks:
        raise Unfit(layer.node, f"{layer.name} holds no FFN in a form that is known")
    if more:
        names = " and ".join(owner.name for owner in layers.classes)
        raise Unfit(more[0].node, f"there are several kinds of layers: {names}")
    if len(networks) > 1:
        raise Unfit(layer.node, f"{layer.name} holds more than one FFN")
    init = layer.method("__init__")
    if init is None:
        raise Unfit(layer.node, f"{layer.name} is not told its configuration")
    taken = [arg.arg for arg in list_positional(init.args)][1:]
    if "config" not in taken:
        raise Unfit(init, f"{layer.name} is not told its configuration")
    index = next((name for name in INDICES if name in taken), "")
    untold = Unfit(init, f"{layer.name} is not told its index")
    if not index:
        raise untold
    place = taken.index(index)
    for call in walk(module.tree, ast.Call):
        if called(call) == layer.name and len(call.args) + len(call.keywords) <= place:
            raise untold
    _refuse_conversions(module, layer)
    return networks[0], init, index


def _refuse_conversions(module: Module, layer: Class) -> None:
    """Experts would not get a weight that transformers makes of other tensors of a checkpoint."""
    if module.folder is None:
        return
    table = module.folder.parents[1] / "conversion_mapping.py"
    if table.is_file() and f'"{module.model}": ' in disk.text_of(table):
        raise Unfit(layer.node, f"transformers converts the checkpoints of {module.model}")


def _layer(
    module: Module, ffn: FeedForward, init: ast.FunctionDef, index: str
) -> tuple[Declared, str]:
    """(the layer with a mixture, the table of the dense weights that its experts get)."""
    names = {part: code.removeprefix("self.") for part, code in ffn.parts.items()}
    ups = [names[part] for part in ("gate", "up") if part in names]
    linear = [(ffn.owner, name) for name in ups]
    # Before a dropout the mixture stands in a Sequential, which has no attribute of that name.
    dropout = names.get("drop") or names.get("rate", "")
    before = "" if dropout else f"{ffn.attribute}."
    idle = []
    if "down" in names:
        down = before + names["down"]
        linear.append((ffn.owner, names["down"]))
    else:
        attribute, second, name = _second(module, ffn)
        down = f"{attribute}.{name}"
        idle = [f"        self.{down} = nn.Identity()"]
        linear.append((second, name))
    kind = _kind_of(ffn, linear)
    gated = ffn.form in ("gated", "halves")
    own = f"self.{ffn.attribute}"
    halves = " // 2" if ffn.form == "halves" else ""
    mixture = (
        f"Mixture(config, gated={gated}, bias={own}.{ups[0]}.bias is not None, "
        f"inner={own}.{ups[0]}.{WIDTHS[kind]}{halves}, activation={_activation(ffn)})"
    )
    if dropout:
        kept = f"{own}.{dropout}" if "drop" in names else f"nn.Dropout({own}.{dropout})"
        mixture = f"nn.Sequential({mixture}, {kept})"
    lines = [
        *init_lines(init),
        f"    if has_experts(config, {index}):",
        f"        {own} = {mixture}",
        *idle,
    ]
    experts = f"{'0' if dropout else ffn.attribute}.experts"
    up = "gate_up_proj" if gated else "up_proj"
    of_up = [before + name for name in ups]
    table = ["_dense_weights = {", *_dense(f"{experts}.{up}", of_up)]
    table += [*_dense(f"{experts}.down_proj", [down]), "}"]
    if kind == "Conv1D":
        table.append("_dense_weights_transposed = True")
    return Declared(ffn.layer.name, members=("\n".join(lines),)), "\n".join(table)


def _kind_of(ffn: FeedForward, linear: list[tuple[Class, str]]) -> str:
    """The one class of the linear layers, each an attribute of a class."""
    makers: list[str] = []
    for owner, name in linear:
        for value in owner.attributes[name]:
            makers.append(last(called(value)))
    kinds = sorted({*makers})
    is_one = len(makers) == len(linear) and len(kinds) == 1
    if not is_one or kinds[0] not in WIDTHS:
        strange = [kind for kind in kinds if kind not in WIDTHS] or ["several"]
        what = f"the linear layers of {ffn.owner.name} are of a kind that experts have not: "
        raise Unfit(ffn.owner.node, what + " and ".join(strange))
    return kinds[0]


def _dense(weight: str, sources: list[str]) -> Iterator[str]:
    """The lines of the table for a weight of the experts and for its bias."""
    for ending, tensor in (("", "weight"), ("_bias", "bias")):
        names = ", ".join(f'"{name}.{tensor}"' for name in sources)
        yield f'    "{weight}{ending}": ({names},),'


def _second(module: Module, ffn: FeedForward) -> tuple[str, Class, str]:
    """The module of the layer that takes the output of the first half: it begins with a Linear."""
    shape = ast.parse(f"y = self.{ffn.attribute}(x)\nz = second(y, ...)").body
    for method in ffn.layer.own.values():
        for match in find(shape, method, {"x", "y", "z", "second"}):
            attribute = last(dotted(match.bound.holes["second"]))
            for owner in module.held(ffn.layer, attribute):
                forward = owner.method("forward")
                if forward is None:
                    continue
                first = getattr(forward.body[0], "value", None)
                name = last(called(first))
                if role_of(owner, name) == "L":
                    return attribute, owner, name
    raise Unfit(ffn.layer.node, f"the second half of the FFN of {ffn.layer.name} is not found")


def _activation(ffn: FeedForward) -> str:
    """The activation of the parent's FFN, as the code of its layer."""
    owner = ffn.owner
    act = ffn.parts["act"]
    if not act.startswith("self."):
        raise Unfit(owner.node, f"`{act}` is no activation that {owner.name} holds")
    name = act.removeprefix("self.")
    # BERT takes a name or a function; other activations that are chosen may have weights.
    most = 2 if "isinstance(" in ast.unparse(owner.node) else 1
    if len(owner.attributes[name]) > most:
        raise Unfit(owner.node, f"the activation of {owner.name} is made in several ways")
    return f"self.{ffn.attribute}.{name}"


def _head(head: Head, outputs: str) -> Declared:
    """The head with the losses of its routers in its loss."""
    method = head.method
    returns = [node.value for node in walk(method.body, ast.Return) if node.value is not None]
    if len(returns) != 1 or not called(returns[0]):
        raise Unfit(method, "what it returns is not one output in one place")
    if "attention_mask" not in parameters(method):
        what = "it has no `attention_mask`, by which routers' losses leave padding out"
        raise Unfit(method, what)
    rest = method.args.kwarg.arg if method.args.kwarg is not None else ""
    if (outputs, rest) == ("outputs", "kwargs"):
        return Declared(head.owner.name, mixins=("MixtureHead",))
    arguments = ["self", "output(...)", outputs, "attention_mask", "labels"]
    if rest:
        arguments.append(f'{rest}.get("num_items_in_batch")')
    new = f"return with_router_losses({', '.join(arguments)})"
    text = edit("add_the_router_losses", method, ["return output(...)"], [new], ["output"])
    return Declared(head.owner.name, members=(text,))


def _model(module: Module, head: Head) -> tuple[str, Class]:
    """(the name of the outputs, the class of the model) that the head uses."""
    for node in walk(head.method.body, ast.stmt):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        function = called(getattr(node, "value", None))
        if not isinstance(target, ast.Name) or not function.startswith("self."):
            continue
        for owner in module.held(head.owner, last(function)):
            forward = owner.method("forward")
            is_model = owner.name.endswith(("Model", "Decoder", "Transformer"))
            if forward is None or not is_model:
                continue
            decorators = {last(called(node) or dotted(node)) for node in forward.decorator_list}
            if not decorators & RECORDING:
                what = f"{owner.name} does not record outputs of its modules, which the loss needs"
                raise Unfit(forward, what)
            return target.id, owner
    raise Unfit(head.method, "the model that it stands on is not found")


def check() -> PartCheck:
    from patchgen.verifying.parts.mixture import MOE

    return MOE


PART = Part(
    "moe",
    check,
    "a new model with a mixture of experts in the place of the MLP",
    moe,
)
