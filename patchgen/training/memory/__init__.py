"""Predicts and measures what a training step holds in memory, and when."""
