"""Mixins of base models that take the padding out of a batch before the embeddings and put it back at the end."""

from typing import Any

import torch

from patchgen.parts.flash.sequences import (
    Sequences,
    of_full_rows,
    of_lengths,
    of_mask,
    of_positions,
    padded,
    positions_in,
    unpadded,
)


class PositionsFromZero:
    def own_positions(self: Any, batch: torch.Tensor) -> torch.Tensor:
        """The positions that the parent gives the tokens of a batch in its rows."""
        return torch.arange(batch.shape[1], device=batch.device).unsqueeze(0)

    def first_position(self) -> int:
        return 0


class PaddingFreeEncoder(PositionsFromZero):
    """As an encoder, its embeddings and layers run on real tokens alone; as a decoder, it is as it was."""

    # What the head reads where padding may stand: nothing, the "first" position of each row, or "all" positions.
    reads_padding: str | None = None
    packs_rows = False

    def forward(
        self: Any,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        batch = input_ids if input_ids is not None else inputs_embeds
        decodes = self.config.is_decoder or encoder_hidden_states is not None or past_key_values is not None
        sequences = sequences_of(self, batch, attention_mask, position_ids, kwargs, padded=decodes)
        as_dict = kwargs.pop("return_dict", self.config.return_dict)
        if sequences is not None:
            position_ids = positions_of(self, batch, position_ids, sequences)
            token_type_ids = in_rows(token_type_ids, batch)
            input_ids, token_type_ids, position_ids, inputs_embeds = (
                unpadded(each, sequences) for each in (input_ids, token_type_ids, position_ids, inputs_embeds)
            )
            attention_mask = no_mask(batch)
            kwargs = kwargs | lengths_of(sequences)
        outputs = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            encoder_hidden_states=encoder_hidden_states,
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
            return_dict=True,
            **kwargs,
        )
        return in_their_rows(outputs, sequences, batch, as_dict)


class OffsetPositions:
    # Positions count words, from padding_idx + 1, as RoBERTa's do.

    def own_positions(self: Any, batch: torch.Tensor) -> torch.Tensor:
        """The positions that the parent gives the tokens of a batch in its rows."""
        if batch.dim() == 3:
            return self.embeddings.create_position_ids_from_inputs_embeds(batch, self.embeddings.padding_idx)
        return self.embeddings.create_position_ids_from_input_ids(batch, self.embeddings.padding_idx)

    def first_position(self: Any) -> int:
        return self.embeddings.padding_idx + 1


class PaddingFreeDecoder(PositionsFromZero):
    """Its embeddings and layers run on real tokens alone, unless there is a cache to read or to make.

    In training, `use_cache` is False where it is not passed.
    """

    reads_padding: str | None = None
    packs_rows = True

    def forward(
        self: Any,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        batch = input_ids if input_ids is not None else inputs_embeds
        if use_cache is None and (self.training or kwargs.get("cu_seq_lens_q") is not None):
            use_cache = False
        caches = past_key_values is not None or (self.config.use_cache if use_cache is None else use_cache)
        sequences = sequences_of(self, batch, attention_mask, position_ids, kwargs, padded=caches)
        as_dict = kwargs.pop("return_dict", self.config.return_dict)
        if sequences is not None:
            position_ids = positions_of(self, batch, position_ids, sequences)
            input_ids, position_ids, inputs_embeds = (
                unpadded(each, sequences) for each in (input_ids, position_ids, inputs_embeds)
            )
            attention_mask = no_mask(batch)
            kwargs = kwargs | lengths_of(sequences)
        outputs = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            return_dict=True,
            **kwargs,
        )
        return in_their_rows(outputs, sequences, batch, as_dict)


def sequences_of(
    model: Any,
    batch: torch.Tensor | None,
    mask: torch.Tensor | None,
    position_ids: torch.Tensor | None,
    kwargs: dict[str, Any],
    *,
    padded: bool,
) -> Sequences | None:
    """The sequences of the batch; None where the parent computes it, padding included.

    That is: where the caller says so (`padded`), under "eager", with `output_attentions`, with a mask of other than
    two dimensions, and where the head reads positions that are padding in this batch.
    """
    if batch is None:
        return None  # the parent says what is missing
    rows, length = batch.shape[:2]
    asked = kwargs.get("output_attentions")
    weights = model.config.output_attentions if asked is None else asked
    padded = padded or weights or model.config._attn_implementation != "sdpa"
    if kwargs.get("cu_seq_lens_q") is not None:
        refuse_with_lengths(model, rows, mask, padded)
        sequences = of_lengths(kwargs["cu_seq_lens_q"], kwargs.get("cu_seq_lens_k"), length)
    elif padded or (mask is not None and (model.reads_padding == "all" or tuple(mask.shape) != (rows, length))):
        return None
    elif mask is not None:
        sequences = of_mask(mask.to(batch.device))
    elif position_ids is not None and (model.packs_rows or rows == 1) and position_ids.dim() == 2:
        sequences = of_positions(position_ids.expand(rows, length))
    else:
        sequences = of_full_rows(rows, length, batch.device)
    if sequences.restart and model.reads_padding is not None:
        raise ValueError(f"the head of {type(model).__name__} reads whole rows, and this one holds several texts")
    reads_first = model.reads_padding is not None or getattr(model, "pooler", None) is not None
    return None if reads_first and sequences.padded_at_start else sequences


def refuse_with_lengths(model: Any, rows: int, mask: torch.Tensor | None, padded: bool) -> None:
    """ValueError where `cu_seq_lens_q` would not be followed."""
    name = type(model).__name__
    if padded:
        raise ValueError(
            f'{name} follows cu_seq_lens_q under attn_implementation="sdpa", without a cache, an encoder\'s states or '
            "output_attentions"
        )
    if mask is not None or rows != 1:
        raise ValueError(f"{name} takes cu_seq_lens_q for a batch of one row, without attention_mask")


def positions_of(
    model: Any, batch: torch.Tensor, position_ids: torch.Tensor | None, sequences: Sequences
) -> torch.Tensor:
    """The position of each place of the batch, (B, L): as given, as the parent counts, or anew in each sequence."""
    if position_ids is not None:
        if sequences.restart and model.first_position():
            refuse_positions_below(model.first_position(), position_ids)
        return in_rows(position_ids, batch)
    if sequences.restart:
        return positions_in(sequences, batch.shape[1]) + model.first_position()
    return in_rows(model.own_positions(batch), batch)


@torch.compiler.disable
def refuse_positions_below(first: int, position_ids: torch.Tensor) -> None:
    """ValueError for positions that no token has: counted from 0, they would be two too small without a word."""
    if int(position_ids.min()) < first:
        raise ValueError(
            f"position_ids begin with {int(position_ids.min())}, and this model counts from {first}: give "
            f"DataCollatorWithFlattening position_ids_start={first}, or leave position_ids out"
        )


def in_rows(batch: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """One row for all, as many times as there are rows."""
    return None if batch is None else batch.expand(*like.shape[:2])


def no_mask(batch: torch.Tensor) -> torch.Tensor:
    """Of four dimensions, so that transformers makes none of T x T, and of a shape that no attention can apply.

    `flash_attention` knows the sequences; whatever else would attend across them.
    """
    return torch.empty(1, 1, 0, 0, dtype=torch.bool, device=batch.device)


def lengths_of(sequences: Sequences) -> dict[str, Any]:
    """As transformers names them, for all layers."""
    starts, longest = sequences.starts_N1, sequences.longest
    return {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": longest, "max_length_k": longest}


def in_their_rows(outputs: Any, sequences: Sequences | None, batch: torch.Tensor, as_dict: bool) -> Any:
    """The outputs, each state where its token stands in the batch, and zeros where none does."""
    if sequences is not None:
        rows, length = batch.shape[:2]
        outputs.last_hidden_state = padded(outputs.last_hidden_state, sequences, rows, length)
        if outputs.hidden_states is not None:
            outputs.hidden_states = tuple(
                None if each is None else padded(each, sequences, rows, length) for each in outputs.hidden_states
            )
    return outputs if as_dict else outputs.to_tuple()
