"""Mixins that put this part into an attention and a pooler, by the statements that models have."""

# What an edit names is the parent's, and it is never run.
# ruff: noqa: F841
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined, no-redef, call-arg"

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.flash.attention import flash_attention
from patchgen.parts.flash.sequences import first_states


class AttendsInSequences:
    @edit("forward")
    def call_the_kernels(self, Callable, attention_interface, kwargs, lookup: Hole, name: Hole, eager: Hole):
        with old:
            attention_interface: Callable = lookup(name, eager)
        with new:
            attention_interface: Callable = (
                lookup(name, eager) if kwargs.get("cu_seq_lens_q") is None else flash_attention
            )


class PoolsFirstTokens:
    # The pooler takes the first position of each row: it is given the first token of each sequence.
    @edit("forward")
    def pool_each_sequence(self, kwargs, states: Hole):
        with old:
            self.pooler(states)
        with new:
            self.pooler(first_states(states, kwargs.get("cu_seq_lens_q")))


class ReadsFirstPosition:
    """It reads the first position of each row: rows that begin with padding are computed with their padding."""

    def __init__(self, config):
        super().__init__(config)
        self.base_model.reads_padding = "first"


class ReadsAllPositions:
    """It compares the positions of a row with each other: rows are computed with their padding."""

    def __init__(self, config):
        super().__init__(config)
        self.base_model.reads_padding = "all"
