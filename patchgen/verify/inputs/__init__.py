"""Dummy inputs: what the forward of a tiny model is given."""
