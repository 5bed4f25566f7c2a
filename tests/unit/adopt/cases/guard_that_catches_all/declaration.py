"""A fork."""

from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


try:
    from fast import _run, _stop

    run, stop = _run, _stop
    HAS_FAST = True
except:
    HAS_FAST = False


class ToyAttention(toy.ToyAttention):
    @edit("forward")
    def change_has_fast(self, weights, k):
        with old:
            return weights @ k
        with new:
            return run(weights @ k) if HAS_FAST else weights @ k
