"""An encoder whose layers run on real tokens alone, under every implementation of attention."""

from typing import Any

import torch
from transformers.modeling_flash_attention_utils import _pad_input

# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-redef, call-arg, misc"
# mypy: disable-error-code="no-untyped-call"
from patchgen.edits import Hole, edit, new, old
from patchgen.parts.flash.rows import attend_in_rows, make_texts, unpad


class AttendsInRows:
    @edit("forward")
    def give_each_text_a_row(self, attention_interface):
        with old:
            attention_interface(...)
        with new:
            attend_in_rows(attention_interface, ...)


class FindsTexts:
    keeps_padding = False  # a head that reads the states of padding sets it

    @torch.compiler.disable  # the number of tokens is not known before
    def find_texts(self: Any, batch: Any, mask: Any, position_ids: Any, kwargs: Any) -> Any:
        """The `Texts` of a batch; None where each row is one, or what stands at padding is read."""
        if mask is not None:
            names = ("output_attentions", "output_hidden_states")
            recorded = any(kwargs.get(name, getattr(self.config, name)) for name in names)
            whole = self.keeps_padding or bool(getattr(self.config, "chunk_size_feed_forward", 0))
            if whole or recorded or mask.ndim != 2 or not mask[:, 0].all():
                return None
        return make_texts(self.config, batch, mask, position_ids, kwargs.get("cu_seq_lens_q"))

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

            texts, batch = None, embedding_output.shape[:2]
            packed = position_ids is not None or kwargs.get("cu_seq_lens_q") is not None
            has_texts = attention_mask is not None or packed
            if has_texts and cache is None and encoder_hidden_states is None:
                texts = self.find_texts(batch, attention_mask, position_ids, kwargs)
            if texts is not None:
                embedding_output, attention_mask = texts.in_rows(embedding_output), texts.mask
                kwargs.update(texts.kwargs)
            attention_mask, encoder_attention_mask = self._create_attention_masks(...)


class PaddingFreeEncoder(FindsTexts):
    # Edits of its own class: they read what the one above binds.
    @edit("forward")
    def run_on_tokens(self, embedding_output, encoder_outputs, texts, batch):
        with old:
            encoder_outputs = self.encoder(embedding_output, ...)
        with new:
            if texts is not None:
                embedding_output = unpad(embedding_output, texts.rows[0])
            encoder_outputs = self.encoder(embedding_output, ...)
            if texts is not None:
                states = encoder_outputs.last_hidden_state[0]
                encoder_outputs.last_hidden_state = _pad_input(states, texts.places_T, *batch)


class PoolsEachText:
    # Before PaddingFreeEncoder.  The pooler takes the first position of each row.
    @edit("forward")
    def pool_each_text(self, texts, sequence_output):
        with old:
            self.pooler(sequence_output)
        with new:
            self.pooler(sequence_output if texts is None else texts.in_rows(sequence_output))


class CountsFromPadding:
    # Before PaddingFreeEncoder.  Positions begin behind that of padding, as RoBERTa's do.
    @torch.compiler.disable
    def find_texts(self: Any, batch: Any, mask: Any, position_ids: Any, kwargs: Any) -> Any:
        """ValueError for packed positions that are counted from 0: they would be too small."""
        first = self.embeddings.padding_idx + 1
        texts = super().find_texts(batch, mask, position_ids, kwargs)
        if texts is not None and mask is None and int(position_ids.min()) < first:
            raise ValueError(
                f"positions begin with {first}: collate with position_ids_start={first}"
            )
        return texts
