"""On which releases of transformers does a variant convert, and what broke it on the others?

view       what one release says, and which of it a conversion asked for
trial      one variant on one release
book       what is known from earlier runs
survey     every variant on every release
states     what a person reads: a state for each
breaks     the definition of the parent that makes the difference between two releases
caught_up  the changes that upstream makes by itself now
report     all of it as text and data; page and picture for `docs`
"""
