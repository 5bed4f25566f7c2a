"""The heads of a model with a mixture of experts, whose loss includes those of the routers."""

from __future__ import annotations

import ast

from patchgen.author.anatomy.code import called, last, walk
from patchgen.author.anatomy.heads import Head
from patchgen.author.anatomy.holding import held
from patchgen.author.anatomy.module import Class, Module
from patchgen.author.declare.edits import edit
from patchgen.author.declare.variant import Declared, Missing

RECORDING = ("capture_outputs", "check_model_inputs")


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
