"""Blocks to a module: the names of the flat file, what is reached, in which order, with which imports."""
