"""Dummy inputs: the arguments of a tiny model's forward."""
