"""Blocks to a module: names, order, imports."""
