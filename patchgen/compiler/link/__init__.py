"""Blocks to a module.

The names of the flat file, what is reached, in which order, with which imports.
"""
