"""Small errors planted in the lines that a variant adds or changes, and which cases see them.

`lines` reads the changed lines from the diff, and which of them run in which case.  `mutations`
makes the errors, `plant` puts one of them into the module, and `prove` runs cases on it.
"""
