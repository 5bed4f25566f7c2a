"""Read Python text: find, split and name what it holds, and say where in it a problem is.

Nothing is imported or run.
"""
