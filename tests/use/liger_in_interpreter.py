"""Compare `modeling.py` in the current folder with its parent, with Liger's kernels run by Triton's interpreter.

python liger_in_interpreter.py PARENT CLASS TINY: the parent's module, a class, its configuration's values as JSON.
The variant is told that its tensors are on a GPU.
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
    modeling.uses_liger = lambda states: True
    print(json.dumps(differences(parent, variant)))


if __name__ == "__main__":
    main()
