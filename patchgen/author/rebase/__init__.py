"""Merge three versions of a method: the old parent's, upstream's, and the declaration's.

In: the parent's method in two releases, and the declaration's method on the older one.  Out: the
declaration's change made to the newer one, or the places where that is in doubt.  What is in doubt
is a clash: no merge is guessed.
"""
