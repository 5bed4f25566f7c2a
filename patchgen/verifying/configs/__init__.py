"""Tiny configurations, and the other settings that a variant is run with."""
