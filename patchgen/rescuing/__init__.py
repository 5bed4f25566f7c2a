"""From a Hub repository's code for transformers 4 to a folder that today's transformers loads.

`sources` reads the old release, `classes` the repository; `rewrite` changes a text by rules,
`names` decides which imported names stay or are copied, `port` does both; `support` has what copied
code needs; `observe` runs a model in either `environment`.  `rescue` is the whole way.
"""
