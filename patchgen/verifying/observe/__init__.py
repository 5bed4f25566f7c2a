"""Observe what a model computes in one step, and which operations it runs."""
