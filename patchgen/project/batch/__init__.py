"""Flattening many modular files: what is known already, who does the rest, and what it came to."""
