"""What the base classes of transformers do to the classes below them."""

from __future__ import annotations

# Their `__init_subclass__` makes a dataclass of every class below them.
FIELD_BASES = frozenset({"PreTrainedConfig", "PretrainedConfig"})
# Bases outside the chain that set nothing in `__init__` but what follows, and private attributes.
MODEST_BASES = frozenset({"GradientCheckpointingLayer", "Module", "PreTrainedModel", "object"})
SET_BY_BASES = frozenset(
    {
        "config",
        "generation_config",
        "loss_type",
        "name_or_path",
        "training",
        "vocab_size",
        "warnings_issued",
    }
)
# Classes below these are for users: nothing in a module has to mention them.
FOR_USERS = frozenset({"PreTrainedModel", "PreTrainedConfig", "PretrainedConfig", "ProcessorMixin"})
