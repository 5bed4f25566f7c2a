"""Three versions of a method: what upstream made of it, and what a declaration makes of it, as one.

In: the parent's method in two releases, and the declaration's method on the older one.  Out: the
declaration's change made to the newer one, or the places where that is in doubt.  What is in doubt
is a clash: no merge is guessed.
"""
