"""Read Python text: find, split and name what it holds.  Nothing is imported or run."""
