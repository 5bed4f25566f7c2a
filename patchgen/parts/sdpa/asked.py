"""Which implementation of attention a model takes, and whether its parent's own statements run."""

from collections.abc import Iterator
from typing import Any

from torch import nn
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_utils import PreTrainedModel


def refuse_other_attention(owner: str, implementation: str | None) -> None:
    """ValueError unless `implementation` is "sdpa", "eager" or None, for which "sdpa" is taken."""
    if implementation not in ("sdpa", "eager", None):
        # transformers' own words first: its tests, and whoever catches the error, look for them.
        raise ValueError(
            f'Specified `attn_implementation="{implementation}"` is not supported: {owner} calls '
            'scaled_dot_product_attention itself and takes "sdpa" or "eager". It would misread the '
            "masks of another implementation. The class of this name in transformers takes it."
        )


class SdpaOrEager:
    """Takes `attn_implementation` "sdpa" and "eager".

    Every other is a ValueError when the model is built, and when `set_attn_implementation` is
    called.
    """

    _supports_sdpa = True
    _supports_flash_attn = False
    _supports_flex_attn = False
    _supports_attention_backend = False

    def _check_and_adjust_attn_implementation(
        self, attn_implementation: str | None, *args: Any, **kwargs: Any
    ) -> str:
        refuse_other_attention(type(self).__name__, attn_implementation)
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def get_correct_attn_implementation(
        self, requested_attention: str | None, *args: Any, **kwargs: Any
    ) -> str:
        # The only check that a model inside another one gets from `set_attn_implementation`.
        refuse_other_attention(type(self).__name__, requested_attention)
        return super().get_correct_attn_implementation(requested_attention, *args, **kwargs)

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        # transformers looks for its own dispatch in the source, finds none, and would ignore the
        # request.
        return True


class SdpaAroundModels(SdpaOrEager):
    """The same around models of other files: one that does not know SDPA takes "eager".

    It does so by itself where nothing is asked for, and would be an error where "sdpa" is.
    """

    def _check_and_adjust_attn_implementation(
        self: Any, attn_implementation: str | None, *args: Any, **kwargs: Any
    ) -> str:
        if kwargs.get("is_init_check"):
            for inner in configs_inside(self.config):
                if inner._attn_implementation == "sdpa":
                    inner._attn_implementation_internal = None
        return super()._check_and_adjust_attn_implementation(attn_implementation, *args, **kwargs)

    def post_init(self: Any) -> None:
        # What no model inside has decided; some are built with a copy of their configuration.
        models = (model for model in self.modules() if isinstance(model, PreTrainedModel))
        taken = {type(model.config): model.config._attn_implementation for model in models}
        for inner in configs_inside(self.config):
            if inner._attn_implementation is None:
                inner._attn_implementation_internal = taken.get(type(inner), "sdpa")
        super().post_init()


class TellsConfig:
    """Gives its configuration to attentions that are built without one: with `config = None`."""

    def post_init(self: Any) -> None:
        for module in self.modules():
            if getattr(module, "config", self) is None:
                module.config = self.config
        super().post_init()


def configs_inside(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """The configurations of the models inside, at any depth."""
    for name in config.sub_configs:
        inner = getattr(config, name, None)
        if inner is not None:
            yield inner
            yield from configs_inside(inner)


def wants_weights(module: nn.Module, output_attentions: bool | None = False) -> bool:
    """Whether the statements of the parent run, because they return weights or under "eager".

    `module` has `config`, its own or by `TellsConfig`.
    """
    implementation = module.config._attn_implementation
    refuse_other_attention(type(module).__name__, implementation)
    return (
        implementation == "eager"
        or bool(output_attentions)
        or bool(module.config.output_attentions)
    )
