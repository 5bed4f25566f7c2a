"""Which tensors the models of a text have, and what fills them."""
