"""Which cases are run for a variant."""
