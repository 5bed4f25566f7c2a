"""The variant and its parent as tiny models with equal weights."""
