"""A fork."""

from transformers.integrations import use_kernelized_func
from transformers.models.toy import modeling_toy as toy


def rotate(query, key, cos, sin):
    if cos is None:
        return query, key
    return query * cos + key * sin, key * cos - query * sin


@use_kernelized_func(rotate)
class ToyAttention(toy.ToyAttention):
    pass
