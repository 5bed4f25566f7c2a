"""What the base classes of transformers do to the classes below them."""

from __future__ import annotations

# Their `__init_subclass__` makes a dataclass of every class below them.
FIELD_BASES = frozenset({"PreTrainedConfig", "PretrainedConfig"})
# Classes below these are for users: nothing in a module has to mention them.
FOR_USERS = frozenset({"PreTrainedModel", "PreTrainedConfig", "PretrainedConfig", "ProcessorMixin"})
