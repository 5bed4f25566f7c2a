"""A variant beside its parent on a real checkpoint and real text."""
