"""Runs the cases of variants in child processes."""
