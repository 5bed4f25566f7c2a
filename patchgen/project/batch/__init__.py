"""Flatten many modular files: from the cache, here, or in worker processes."""
