"""Reusable pieces of variants: ordinary torch code that is flattened into what uses it."""
