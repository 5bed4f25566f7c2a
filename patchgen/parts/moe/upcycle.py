"""A mixture from a dense checkpoint: every expert is a copy of the FFN.

Komatsuzaki et al. 2022, arXiv:2212.05055.
"""

from typing import Any, TypeVar

import torch
from transformers import PreTrainedModel
from transformers.core_model_loading import ConversionOps, WeightConverter

Model = TypeVar("Model", bound=PreTrainedModel)
# Of a dense configuration, what a mixture has of its own.
OWN_FIELDS = ("model_type", "architectures", "transformers_version", "dtype", "torch_dtype")


class CopyToExperts(ConversionOps):
    """Concatenates the weights of one FFN and copies them to every expert; there is no way back."""

    def convert(
        self, input_dict: Any, source_patterns: Any, target_patterns: Any, **kwargs: Any
    ) -> Any:
        model = kwargs["model"]
        config = model.config.get_text_config()
        refuse_other_function(config)
        weights = [input_dict[name][0] for name in source_patterns]
        if model._dense_weights_transposed and weights[0].dim() == 2:
            weights = [weight.t() for weight in weights]
        dense = torch.cat(weights)
        return {target_patterns[0]: dense.expand(config.num_experts, *dense.shape).clone()}


def refuse_other_function(config: Any) -> None:
    """ValueError where the mixture would not compute what the dense model does."""
    split = getattr(config, "distributed_config", None)
    if config.num_experts_per_tok < 2 or not config.norm_topk_prob:
        needed = "num_experts_per_tok >= 2 and norm_topk_prob=True"
        raise ValueError(f"a dense checkpoint becomes a mixture with {needed}")
    if split is not None and split.ep_size > 1:
        raise ValueError("a dense checkpoint becomes a mixture whole: load it without ep_size")


def upcycling(model: Any) -> list[WeightConverter]:
    """From the dense model's checkpoint, of its base model or a head, to the experts of `model`."""
    converters = []
    for name, _ in model.named_parameters():
        for experts, dense in model._dense_weights.items():
            if name.endswith(f".{experts}"):
                layer = name.removeprefix(f"{model.base_model_prefix}.").removesuffix(experts)
                sources = [layer + weight for weight in dense]
                converters.append(WeightConverter(sources, layer + experts, [CopyToExperts()]))
    return converters


def upcycle(dense: PreTrainedModel, mixture_class: type[Model], **options: Any) -> Model:
    """The mixture that computes what `dense` does, on its device and in its dtype.

    `options` are those of its configuration.  Raises ValueError where a weight of either has no
    counterpart; routers have none, and are drawn.
    """
    kept = {name: value for name, value in dense.config.to_dict().items() if name not in OWN_FIELDS}
    config = mixture_class.config_class(**{**kept, **options})
    refuse_other_function(config)
    model, report = mixture_class.from_pretrained(
        None,
        config=config,
        state_dict=dense.state_dict(),
        dtype=dense.dtype,
        output_loading_info=True,
    )
    wrong = {}
    for kind, names in report.items():
        if kind == "missing_keys":
            names = [name for name in names if not name.endswith(".router.weight")]
        if names:
            wrong[kind] = sorted(map(str, names))
    if wrong:
        kinds = f"{type(dense).__name__} does not become a {mixture_class.__name__}"
        raise ValueError(f"{kinds}: {wrong}")
    return model.to(dense.device)
