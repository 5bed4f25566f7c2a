"""Compare `modeling.py` in the current folder with its parent, with Liger's kernels run by Triton's interpreter.

python liger_in_interpreter.py PARENT CLASS TINY: the parent's module, a class, its configuration's values as JSON.
A variant with the part `kernels` is told that its tensors are on a GPU.
Prints the largest difference of logits, loss and gradients, relative to the parent's largest entry, as JSON.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import importlib

import torch
from torch import Tensor

from patchgen.runtime.interpreter import complete_interpreter


def compare(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def step(model: torch.nn.Module, tokens: Tensor, labels: Tensor, **given) -> dict[str, Tensor]:
    """The loss of a training step, and the gradient of every parameter."""
    model.train().zero_grad()
    output = model(input_ids=tokens, labels=labels, **given)
    output.loss.backward()
    found = {"loss": output.loss.detach()}
    return found | {name: p.grad.clone() for name, p in model.named_parameters()}


def differences(parent, variant) -> dict[str, float]:
    tokens = torch.randint(parent.config.vocab_size, (2, 5))
    labels = tokens.clone()
    labels[0, :2] = -100
    found = {}
    with torch.no_grad():
        found["logits"] = compare(variant.eval()(tokens).logits, parent.eval()(tokens).logits)
    for case, given in {"mean": {}, "sum": {"num_items_in_batch": torch.tensor(3)}}.items():
        theirs, ours = step(parent, tokens, labels, **given), step(variant, tokens, labels, **given)
        assert theirs.keys() == ours.keys()
        found |= {f"{case} {name}": compare(ours[name], theirs[name]) for name in theirs}
    return found


def train_on_nothing(variant) -> None:
    tokens = torch.arange(3)[None]
    trained = variant(tokens, labels=torch.full_like(tokens, -100), return_dict=False)
    assert trained[0] == 0, "Liger's mean of nothing"
    assert trained[1] is None, "the place of the logits"


def refusals(variant_class, config) -> list[str]:
    """What the variant says of an adapter on its head, and of another activation."""
    from peft import LoraConfig, get_peft_model

    lines = []
    adapted = get_peft_model(
        variant_class(config), LoraConfig(target_modules=["lm_head"], task_type="CAUSAL_LM")
    )
    tokens = torch.arange(3)[None]
    try:
        adapted.train()(input_ids=tokens, labels=tokens)
    except ValueError as error:
        lines.append(str(error))
    name = "hidden_act" if hasattr(config, "hidden_act") else "hidden_activation"
    other = type(config)(**{**config.to_dict(), name: "relu"})
    try:
        variant_class(other)
    except ValueError as error:
        lines.append(str(error))
    return lines


def main() -> None:
    parent_name, class_name, tiny = sys.argv[1:]
    complete_interpreter()
    sys.path.insert(0, os.getcwd())
    parent_class = getattr(importlib.import_module(parent_name), class_name)
    modeling = importlib.import_module("modeling")
    variant_class = getattr(modeling, class_name)
    torch.manual_seed(0)
    config = parent_class.config_class(**json.loads(tiny))
    parent, variant = parent_class(config), variant_class(config)
    with torch.no_grad():
        for parameter in parent.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)  # norms begin with ones
    variant.load_state_dict(parent.state_dict())
    if hasattr(modeling, "uses_liger"):
        modeling.uses_liger = lambda states: True
        print(json.dumps([differences(parent, variant), []]))
    else:
        train_on_nothing(variant.train())
        print(json.dumps([differences(parent, variant), refusals(variant_class, config)]))


if __name__ == "__main__":
    main()
