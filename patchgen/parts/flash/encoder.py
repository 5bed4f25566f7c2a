"""An encoder whose layers run on real tokens alone, under every implementation of attention."""

import torch
from transformers.modeling_flash_attention_utils import _index_first_axis, _pad_input

# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-redef, call-arg, misc"
# mypy: disable-error-code="no-untyped-call"
from patchgen.edits import Hole, after, edit, new, old
from patchgen.parts.flash.lengths import takes_cu_seqlens
from patchgen.parts.flash.rows import attend_in_rows, find_sequences


class AttendsInRows:
    @edit("forward")
    def give_each_text_a_row(self, attention_interface):
        with old:
            attention_interface(...)
        with new:
            attend_in_rows(attention_interface, ...)


class FindsTexts:
    keeps_padding = False  # a head that reads the states of padding sets it

    def unpads(self, attention_mask, position_ids, kwargs):
        """Whether a batch has padding, or several texts in a row, and nobody reads padding."""
        if attention_mask is None:
            return position_ids is not None or kwargs.get("cu_seq_lens_q") is not None
        names = ("output_attentions", "output_hidden_states")
        recorded = any(kwargs.get(name, getattr(self.config, name)) for name in names)
        chunked = getattr(self.config, "chunk_size_feed_forward", 0)
        if self.keeps_padding or recorded or chunked or attention_mask.ndim != 2:
            return False
        # Poolers read first places, which `find_sequences` keeps for other attention.
        return not takes_cu_seqlens(self.config) or attention_mask[:, 0].all()

    @edit("forward")
    def take_padding_out(
        self,
        encoder_hidden_states,
        attention_mask,
        encoder_attention_mask,
        embedding_output,
        position_ids,
        kwargs,
        seen: Hole,
        cache: Hole,
    ):
        with old:
            seen = cache.get_seq_length() if cache is not None else 0
            ...
            attention_mask, encoder_attention_mask = self._create_attention_masks(...)
        with new:
            seen = cache.get_seq_length() if cache is not None else 0
            ...

            batch, indices, first = embedding_output.shape[:2], None, None
            is_encoder = cache is None and encoder_hidden_states is None
            if is_encoder and self.unpads(attention_mask, position_ids, kwargs):
                indices, first, attention_mask, told = find_sequences(
                    self.config, embedding_output, attention_mask, position_ids, kwargs
                )
                kwargs.update(told)
            attention_mask, encoder_attention_mask = self._create_attention_masks(...)


class PaddingFreeEncoder(FindsTexts):
    # Edits of its own class: they read what the one above binds.
    @edit("forward")
    def run_on_tokens(self, embedding_output, encoder_outputs, indices, batch):
        with old:
            encoder_outputs = self.encoder(embedding_output, ...)
        with new:
            if indices is not None:
                embedding_output = _index_first_axis(embedding_output, indices)[None]
            encoder_outputs = self.encoder(embedding_output, ...)
            if indices is not None:
                states = encoder_outputs.last_hidden_state[0]
                encoder_outputs.last_hidden_state = _pad_input(states, indices, *batch)


class PoolsEachText:
    # Before PaddingFreeEncoder.  The pooler takes the first position of each row.
    @edit("forward")
    def pool_each_text(self, first, sequence_output):
        with old:
            self.pooler(sequence_output)
        with new:
            self.pooler(first_tokens(sequence_output, first))


def first_tokens(states, first):
    """The states, or the first of each packed text in a row of its own."""
    if first is None:
        return states
    first = first.flatten().nonzero().squeeze(1) if first.dtype == torch.bool else first
    return _index_first_axis(states, first)[:, None]


class CountsFromPadding:
    # Before PaddingFreeEncoder.  Positions begin behind that of padding, as RoBERTa's do.
    @edit("forward")
    def refuse_positions_from_zero(
        self, encoder_hidden_states, attention_mask, position_ids, kwargs, is_encoder, cache: Hole
    ):
        with old:
            is_encoder = cache is None and encoder_hidden_states is None
        with after:
            if is_encoder and attention_mask is None and position_ids is not None:
                is_told = kwargs.get("cu_seq_lens_q") is not None
                check_positions(position_ids, self.embeddings.padding_idx + 1, is_told)


def check_positions(position_ids, first, is_told):
    """An error for positions that are counted from 0: they would be too small."""
    message = f"positions begin with {first}: collate with position_ids_start={first}"
    is_right = position_ids.min() >= first
    if is_told or torch.compiler.is_compiling():
        torch._assert_async(is_right, message)  # a look at it would wait for the device
    elif not is_right:
        raise ValueError(message)
