"""From a Hub repository's code for transformers 4 to a folder that today's transformers loads.

`sources` reads the source of the old release, `names` decides for each imported name whether it
stays or is copied, `support` has what copied code needs in place of tuples as caches, `port`
rewrites the text, and `observe` runs a model in either environment.  `rescue` is the whole way.
Like `unpatching`, this package runs the user's code; the converter imports nothing.
"""
