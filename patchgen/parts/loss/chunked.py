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
    TakesLoss,
    UnshiftedHead,
)
from patchgen.parts.loss.linear import InChunks


class ChunkedLoss(TakesLoss, InChunks, PlainHead): ...


class BiasedChunkedLoss(TakesLoss, InBiasedChunks, PlainHead): ...


class ScaledChunkedLoss(TakesLoss, InChunks, ScaledHead): ...


class DividedChunkedLoss(TakesLoss, InChunks, DividedHead): ...


class SoftcappedChunkedLoss(TakesLoss, InChunks, SoftcappedHead): ...


class AlwaysCappedChunkedLoss(TakesLoss, InChunks, AlwaysCappedHead): ...


class ScaledCappedChunkedLoss(TakesLoss, InChunks, ScaledCappedHead): ...


class UnshiftedChunkedLoss(InChunks, UnshiftedHead): ...
