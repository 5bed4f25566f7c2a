"""A declaration for one release, made to fit another: nothing in doubt is guessed."""
