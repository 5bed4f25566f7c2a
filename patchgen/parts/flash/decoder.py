"""A causal model whose layers run on real tokens, where attention takes the lengths of texts."""

from transformers.modeling_flash_attention_utils import _index_first_axis, _pad_input

# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-redef, call-arg"
# mypy: disable-error-code="no-untyped-call, no-any-return, misc"
from patchgen.edits import Hole, after, edit, new, old
from patchgen.parts.flash.lengths import (
    get_unpad_data,
    labels_within_sequences,
    packed_mask_function,
    takes_cu_seqlens,
)


class NoCacheInTraining:
    @edit("forward")
    def make_no_cache_of_texts(self, use_cache, kwargs, cache: Hole):
        with old:
            use_cache and cache is None
        with new:
            use_cache and cache is None and not self.training and kwargs.get(
                "cu_seq_lens_q"
            ) is None


class TakesPaddingOut(NoCacheInTraining):
    keeps_padding = False  # a head that reads states at padding sets it

    def unpads(self, attention_mask, position_ids, past_key_values, kwargs):
        """Whether padding is taken out, and attention is told where texts end."""
        recorded = kwargs.get("output_hidden_states", self.config.output_hidden_states)
        if self.keeps_padding or recorded or past_key_values is not None:
            return False
        if kwargs.get("cu_seq_lens_q") is not None or not takes_cu_seqlens(self.config):
            return False
        if attention_mask is None:
            return position_ids is not None and position_ids.shape[-1] > 1
        return getattr(attention_mask, "ndim", 0) == 2

    @edit("forward")
    def take_padding_out(
        self, attention_mask, inputs_embeds, position_ids, kwargs, seen: Hole, cache: Hole
    ):
        with old:
            if position_ids is None:
                seen = cache.get_seq_length() if cache is not None else 0
                ...
        with new:
            batch, indices = inputs_embeds.shape[:2], None
            if self.unpads(attention_mask, position_ids, cache, kwargs):
                indices, lengths = get_unpad_data(batch, attention_mask, position_ids)
                attention_mask, kwargs = None, kwargs | lengths
            cu_seqlens = kwargs.get("cu_seq_lens_q")
            and_mask_function = packed_mask_function(
                self.config, batch, attention_mask, position_ids, cache, cu_seqlens
            )
            if position_ids is None:
                seen = cache.get_seq_length() if cache is not None else 0
                ...
            if indices is not None:
                inputs_embeds = _index_first_axis(inputs_embeds, indices)[None]
                position_ids = _index_first_axis(position_ids.expand(batch), indices)[None]


class PutsPaddingBack(TakesPaddingOut):
    # In a class of its own: it reads what the edit above binds.
    @edit("forward")
    def put_padding_back(self, hidden_states, indices, batch, output: Hole):
        with old:
            return output(...)
        with new:
            if indices is not None:
                hidden_states = _pad_input(hidden_states[0], indices, *batch)
            return output(...)


class PaddingFreeDecoder(PutsPaddingBack):
    # Lengths that are told spare transformers a look at positions, which waits for the device.
    @edit("forward")
    def keep_texts_apart(self, create_causal_mask, position_ids, cu_seqlens, and_mask_function):
        with old:
            create_causal_mask(..., position_ids=position_ids)
        with new:
            create_causal_mask(
                ...,
                position_ids=position_ids if cu_seqlens is None else None,
                and_mask_function=and_mask_function,
            )


class PaddingFreeWindowDecoder(PutsPaddingBack):
    # A window decides which function makes the mask.
    @edit("forward")
    def keep_texts_apart(self, mask_function, position_ids, cu_seqlens, and_mask_function):
        with old:
            mask_function(..., position_ids=position_ids)
        with new:
            mask_function(
                ...,
                position_ids=position_ids if cu_seqlens is None else None,
                and_mask_function=and_mask_function,
            )


class PaddingFreeLayerTypesDecoder(PutsPaddingBack):
    # Layers with a window and others have a mask each.
    @edit("forward")
    def keep_texts_apart(self, mask_kwargs, cu_seqlens, and_mask_function, arguments: Hole):
        with old:
            mask_kwargs = arguments
        with after:
            mask_kwargs["and_mask_function"] = and_mask_function
            if cu_seqlens is not None:
                mask_kwargs["position_ids"] = None


class LabelsWithinTexts:
    # Of the head: the first token of a text is predicted from the text before it.
    @edit("forward")
    def label_no_first_token(self, labels, position_ids, hidden_states, outputs):
        with old:
            hidden_states = outputs.last_hidden_state
        with after:
            labels = labels_within_sequences(labels, position_ids)
