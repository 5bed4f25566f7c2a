"""Small errors planted in the lines that a variant adds or changes, and which cases see them.

`changed_lines` reads the lines from the diff, `lines_run` which of them run in which case, `mutate`
makes the errors, `planted_error` puts one of them into the module, and `observe` runs the cases until one
sees it; `equivalence` tells of what none sees whether it computes anything else at all.  `prove`
puts them together.
"""
