"""From a fork to a declaration.

Which modular file gives a changed copy of a modeling file again, and does it?

A fork is read, its parent and release are found, a declaration is written from the two, and the
converter flattens it: what comes out is compared with the fork.  Nothing is believed that was not
flattened.
"""
