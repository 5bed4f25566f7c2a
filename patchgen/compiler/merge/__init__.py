"""A class and the parents that are merged into it: one flat class with the same behaviour, or a refusal."""
