"""A mixture from a dense checkpoint: every expert is a copy of the FFN (Komatsuzaki et al. 2022, arXiv:2212.05055)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from transformers import PreTrainedModel
from transformers.conversion_mapping import (
    get_checkpoint_conversion_mapping,
    register_checkpoint_conversion_mapping,
)
from transformers.core_model_loading import ConversionOps, WeightConverter, WeightRenaming, WeightTransform

from patchgen.parts.moe.mixture import Mixture

Model = TypeVar("Model", bound=PreTrainedModel)
# Of a dense configuration, what a mixture has of its own.
OWN_FIELDS = ("model_type", "architectures", "transformers_version", "dtype", "torch_dtype")


class CopyToExperts(ConversionOps):
    """Weights of one FFN, one above the other, to those of every expert.

    `weights`: what they are called where another operation gives them, else as the converter's sources.
    `transposed` are those of a Conv1D.  There is no way back: experts differ as soon as they are trained.
    """

    def __init__(self, transposed: bool = False, weights: Sequence[str] = ()) -> None:
        self.transposed = transposed
        self.weights = tuple(weights)

    @torch.no_grad()
    def convert(
        self, input_dict: dict[str, Any], source_patterns: list[str], target_patterns: list[str], **kwargs: Any
    ) -> dict[str, Any]:
        config = kwargs["config"].get_text_config()
        refuse_other_function(config)
        refuse_split_experts(kwargs["config"])
        given = [input_dict[name] for name in self.weights or source_patterns]
        parts = [each[0] if isinstance(each, list) else each for each in given]
        dense = torch.cat([part.t() if self.transposed and part.dim() == 2 else part for part in parts])
        return {target_patterns[0]: dense.expand(config.num_experts, *dense.shape).clone()}

    @property
    def reverse_op(self) -> ConversionOps:
        raise NotImplementedError("a mixture cannot be made one FFN again")


class AsInDenseModel(ConversionOps):
    """What transformers does with weights of the dense model when it loads them, before they are copied."""

    def __init__(self, converter: WeightConverter) -> None:
        self.converter = converter

    def convert(
        self, input_dict: dict[str, Any], source_patterns: list[str], target_patterns: list[str], **kwargs: Any
    ) -> dict[str, Any]:
        sources, targets = self.converter.source_patterns, self.converter.target_patterns
        given = {theirs: input_dict[ours] for ours, theirs in zip(source_patterns, sources, strict=True)}
        for operation in self.converter.operations:
            given = operation.convert(given, source_patterns=sources, target_patterns=targets, **kwargs)
        return given

    @property
    def reverse_op(self) -> ConversionOps:
        raise NotImplementedError("a mixture cannot be made one FFN again")


class UpcyclingConverter(WeightConverter):
    """Applies to dense checkpoints when they are loaded, in the layers that have experts.

    A mixture is saved as it is: backwards this matches nothing.
    """

    __slots__ = ("layers",)

    def __init__(
        self, source_patterns: list[str], target_patterns: str, operations: list[ConversionOps], layers: Sequence[str]
    ) -> None:
        super().__init__(source_patterns, target_patterns, operations)
        self.layers = tuple(layers)

    def rename_source_key(self, source_key: str) -> tuple[str, str | None]:
        renamed, source = super().rename_source_key(source_key)
        if source is None or self.is_of_a_layer(renamed):
            return renamed, source
        return source_key, None

    def is_of_a_layer(self, key: str) -> bool:
        """Whether `key` is the experts' weight in one of the layers, by its full name or without the base model's
        prefix.
        """
        layer = key.removesuffix(f".{self.target_patterns[0]}")
        return layer != key and any(
            f".{one}".endswith(f".{layer}") or layer.endswith(f".{one}") for one in self.layers
        )

    def reverse_transform(self) -> WeightTransform:
        return WeightRenaming("(?!)nothing", "nothing")


def refuse_other_function(config: Any) -> None:
    """ValueError where the mixture would not compute what the dense model does."""
    if config.num_experts_per_tok < 2 or not config.norm_topk_prob:
        raise ValueError(
            f"a dense checkpoint becomes a mixture where gates sum to one over two experts or more, not with "
            f"num_experts_per_tok={config.num_experts_per_tok} and norm_topk_prob={config.norm_topk_prob}"
        )


def refuse_split_experts(config: Any) -> None:
    """ValueError where each process has experts of its own: it would be given the dense weights of none."""
    split = getattr(config, "distributed_config", None)
    if split is not None and split.ep_size > 1:
        raise ValueError("a dense checkpoint is not loaded split by expert: save the mixture it becomes, load that")


def take_dense_checkpoints(model: PreTrainedModel, weights: Mapping[str, Sequence[str]], transposed: bool) -> None:
    """Let `from_pretrained` load dense checkpoints into models of this type, the layers of `model` being those with
    experts: transformers asks when it has built the model that it loads.

    `weights`: see `MixtureModel._dense_weights`.  What is registered already stays, which is what transformers does
    with checkpoints of the dense model.
    """
    layers = [name.rpartition(".")[0] for name, module in model.named_modules() if isinstance(module, Mixture)]
    # An entry of a class goes before that of the type.
    for name in (type(model).__name__, model.config.model_type):
        found = get_checkpoint_conversion_mapping(name) or []
        theirs = [each for each in found if not isinstance(each, UpcyclingConverter)]
        if theirs or name == model.config.model_type:
            ours = [upcycling(to, dense, transposed, layers, theirs) for to, dense in weights.items()]
            register_checkpoint_conversion_mapping(name, [*ours, *theirs], overwrite=True)


def upcycling(
    to: str, dense: Sequence[str], transposed: bool, layers: Sequence[str], theirs: Sequence[WeightTransform]
) -> UpcyclingConverter:
    """The converter of the weights `dense` to the experts' `to`.

    A weight has one converter: what one of `theirs` makes of a checkpoint's is made here, and then copied.
    """
    for each in theirs:
        places = [place_of(each, name) for name in dense] if isinstance(each, WeightConverter) else []
        found = [place for place in places if place is not None]
        if len(found) == len(dense) and len({(head, end) for head, _, end in found}) == 1:
            head, _, end = found[0]
            # In brackets, because transformers finds a converter by what its source is called.
            sources = [f"(?:{re.escape(head)}{source}{re.escape(end)})" for source in each.source_patterns]
            made = CopyToExperts(transposed, [target for _, target, _ in found])
            return UpcyclingConverter(sources, to, [AsInDenseModel(each), made], layers)
    return UpcyclingConverter(list(dense), to, [CopyToExperts(transposed)], layers)


def place_of(converter: WeightConverter, name: str) -> tuple[str, str, str] | None:
    """`name` as what stands before a target of `converter`, the target, and what kind of weight it is."""
    for target in converter.target_patterns:
        head, found, end = f".{name}".rpartition(f".{target}")
        if found and end in ("", ".weight", ".bias"):
            return f"{head}.".removeprefix("."), target, end
    return None


def upcycle(dense: PreTrainedModel, mixture_class: type[Model], **options: Any) -> Model:
    """The mixture that computes what `dense` does, on its device and in its dtype; `options` of its configuration.

    Raises ValueError where a weight of either has no counterpart, routers apart, which are drawn.
    """
    kept = {name: value for name, value in dense.config.to_dict().items() if name not in OWN_FIELDS}
    config = mixture_class.config_class(**{**kept, **options})
    refuse_other_function(config)
    model, report = mixture_class.from_pretrained(
        None, config=config, state_dict=dense.state_dict(), dtype=dense.dtype, output_loading_info=True
    )
    wrong = {kind: sorted(map(str, names)) for kind, names in report.items() if kind != "missing_keys" and names}
    if missing := sorted(name for name in report["missing_keys"] if not name.endswith(".router.weight")):
        wrong["missing_keys"] = missing
    if wrong:
        raise ValueError(f"{type(dense).__name__} does not become a {mixture_class.__name__}: {wrong}")
    return model.to(dense.device)
