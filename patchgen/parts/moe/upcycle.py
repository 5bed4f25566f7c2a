"""A mixture from a dense checkpoint: every expert is a copy of the FFN (Komatsuzaki et al. 2022, arXiv:2212.05055)."""

from typing import Any, TypeVar

import torch
from transformers import PreTrainedModel
from transformers.core_model_loading import ConversionOps, WeightConverter

Model = TypeVar("Model", bound=PreTrainedModel)
# Of a dense configuration, what a mixture has of its own.
OWN_FIELDS = ("model_type", "architectures", "transformers_version", "dtype", "torch_dtype")


class CopyToExperts(ConversionOps):
    """Weights of one FFN, one above the other, to those of every expert: experts drawn together have no way back."""

    def convert(
        self, input_dict: Any, source_patterns: Any, target_patterns: Any, model: Any, **kwargs: Any
    ) -> Any:
        config = model.config.get_text_config()
        refuse_other_function(config)
        parts = [input_dict[name][0] for name in source_patterns]
        turned = model._dense_weights_transposed and parts[0].dim() == 2
        dense = torch.cat([part.t() for part in parts] if turned else parts)
        return {target_patterns[0]: dense.expand(config.num_experts, *dense.shape).clone()}


def refuse_other_function(config: Any) -> None:
    """ValueError where the mixture would not compute what the dense model does."""
    k, normalised, split = (
        config.num_experts_per_tok,
        config.norm_topk_prob,
        getattr(config, "distributed_config", None),
    )
    if k < 2 or not normalised or (split is not None and split.ep_size > 1):
        raise ValueError(
            "a dense checkpoint becomes a mixture where gates sum to one over two experts or more, and whole: here "
            f"num_experts_per_tok={k}, norm_topk_prob={normalised}, distributed_config={split}"
        )


def upcycling(model: Any) -> list[WeightConverter]:
    """From the dense model's checkpoint, of its base model or a head, to the experts of `model`."""
    found = []
    for name, _ in model.named_parameters():
        for experts, dense in model._dense_weights.items():
            if name.endswith(f".{experts}"):
                layer = name.removeprefix(f"{model.base_model_prefix}.").removesuffix(experts)
                found.append(
                    WeightConverter(
                        [layer + one for one in dense], layer + experts, [CopyToExperts()]
                    )
                )
    return found


def upcycle(dense: PreTrainedModel, mixture_class: type[Model], **options: Any) -> Model:
    """The mixture that computes what `dense` does, on its device and in its dtype; `options` of its configuration.

    Raises ValueError where a weight of either has no counterpart, routers apart, which are drawn.
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
    wrong = {
        kind: sorted(map(str, names))
        for kind, names in report.items()
        if kind != "missing_keys" and names
    }
    if missing := sorted(
        name for name in report["missing_keys"] if not name.endswith(".router.weight")
    ):
        wrong["missing_keys"] = missing
    if wrong:
        raise ValueError(
            f"{type(dense).__name__} does not become a {mixture_class.__name__}: {wrong}"
        )
    return model.to(dense.device)
