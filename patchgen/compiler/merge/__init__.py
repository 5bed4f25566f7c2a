"""Merge a class with its parents into one flat class of the same behaviour, or refuse."""
