"""A causal model whose layers run on real tokens, where attention takes the lengths of texts."""

from transformers.modeling_flash_attention_utils import _index_first_axis, _pad_input

# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-redef, call-arg"
# mypy: disable-error-code="no-untyped-call"
from patchgen.edits import Hole, after, edit, new, old
from patchgen.parts.flash.lengths import find_texts, labels_within_texts


class NoCacheInTraining:
    @edit("forward")
    def make_no_cache_in_training(self, use_cache, cache: Hole):
        with old:
            use_cache and cache is None
        with new:
            use_cache and cache is None and not self.training


class TakesPaddingOut(NoCacheInTraining):
    keeps_padding = False  # a head that reads states at padding sets it

    @edit("forward")
    def take_padding_out(
        self, attention_mask, inputs_embeds, position_ids, kwargs, seen: Hole, cache: Hole
    ):
        with old:
            if position_ids is None:
                seen = cache.get_seq_length() if cache is not None else 0
                ...
        with new:
            texts, batch = None, inputs_embeds.shape[:2]
            told = attention_mask, position_ids, kwargs.get("cu_seq_lens_q")
            if batch[1] > 1 and any(each is not None for each in told):
                attention_mask, texts = find_texts(self, *told[:2], batch, cache, kwargs)
            if position_ids is None:
                seen = cache.get_seq_length() if cache is not None else 0
                ...
            if texts is not None:
                places_T, kwargs = texts[0], kwargs | texts[1]
                position_ids = _index_first_axis(position_ids.expand(batch), places_T)[None]
                inputs_embeds = _index_first_axis(inputs_embeds, places_T)[None]


class PaddingFreeDecoder(TakesPaddingOut):
    # In a class of its own: it reads what the edit above binds.
    @edit("forward")
    def put_padding_back(self, hidden_states, texts, batch, places_T, output: Hole):
        with old:
            return output(...)
        with new:
            if texts is not None:
                hidden_states = _pad_input(hidden_states[0], places_T, *batch)
            return output(...)


class LabelsWithinTexts:
    # Of the head: the first token of a text is predicted from the text before it.
    @edit("forward")
    def label_no_first_token(self, labels, position_ids, hidden_states, outputs):
        with old:
            hidden_states = outputs.last_hidden_state
        with after:
            labels = labels_within_texts(labels, position_ids)
