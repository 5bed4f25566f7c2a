"""A project: its configuration, its files, its outputs, what is recorded of them, and the gate."""
