"""Small errors planted in the lines that a variant adds or changes, and which cases see them.

`changed_lines` reads the lines from the diff, `lines_run` which of them run in which case, `mutate`
makes the errors, `plant` puts one of them into the module, and `observe` runs the cases until one
sees it; `operation_log` tells whether an unseen error computes anything else at all.  `prove`
puts them together.
"""
