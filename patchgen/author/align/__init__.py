"""Two versions of a file side by side: which definition, member and statement is which.

In: the syntax trees of a parent and of a file that was made from it.  Out: pairs and changes, as
values.  Nothing here knows how a modular file says a change.
"""
