# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def"
"""Queries and keys rotated in one kernel."""

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.liger.kernels import liger


class LigerRotary:
    # The kernel reads the first half of cosines and sines: the second has to be the same.
    @edit("forward")
    def rotate_in_one_kernel(self, query_states, key_states, cos, sin, rotate: Hole):
        with old:
            query_states, key_states = rotate(query_states, key_states, cos, sin)
        with new:
            query_states, key_states = liger.liger_rope(query_states, key_states, cos, sin)
