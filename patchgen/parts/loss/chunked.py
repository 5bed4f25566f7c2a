# mypy: disable-error-code="misc"
"""The loss of each kind of head, from logits that exist for some tokens or words at a time."""

from patchgen.parts.loss.biased import InBiasedChunks
from patchgen.parts.loss.heads import (
    AlwaysCappedHead,
    DividedHead,
    PlainHead,
    ScaledCappedHead,
    ScaledHead,
    SoftcappedHead,
    UnshiftedHead,
)
from patchgen.parts.loss.linear import InChunks


class ChunkedLoss(InChunks, PlainHead): ...


class BiasedChunkedLoss(InBiasedChunks, PlainHead): ...


class ScaledChunkedLoss(InChunks, ScaledHead): ...


class DividedChunkedLoss(InChunks, DividedHead): ...


class SoftcappedChunkedLoss(InChunks, SoftcappedHead): ...


class AlwaysCappedChunkedLoss(InChunks, AlwaysCappedHead): ...


class ScaledCappedChunkedLoss(InChunks, ScaledCappedHead): ...


class UnshiftedChunkedLoss(InChunks, UnshiftedHead): ...
