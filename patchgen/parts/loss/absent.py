"""What stands in the place of logits that were not computed."""

from typing import Any


class NoLogits(tuple[Any, ...]):
    """No logits: an empty tuple to code that gathers outputs, an error to code that reads them."""

    def __getattr__(self, name: Any) -> Any:
        how = "`config.loss_chunk_size = 0` or, of a causal model, `skip_logits=False` brings them"
        raise AttributeError(f"`logits` were not computed and have no {name}: {how} back")

    __getitem__ = __getattr__
