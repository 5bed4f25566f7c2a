"""A fork."""

from transformers.models.toy import modeling_toy as toy


try:
    import fast_kernels
except ImportError:
    fast_kernels = None


_LIMIT = 7.0


SETTINGS = {}


SETTINGS["b"] = fast_kernels


class ToyModel(toy.ToyModel):
    pass
