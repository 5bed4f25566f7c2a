"""Tiny configurations, and the settings that a variant is run with beside them."""
