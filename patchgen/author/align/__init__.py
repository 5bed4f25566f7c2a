"""Two versions of a file laid side by side: which definition, member and statement of one is which of the other.

In: the syntax trees of a parent and of a file that was made from it.  Out: pairs and changes, as values.  Nothing here
knows how a modular file says a change.
"""
