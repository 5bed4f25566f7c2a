"""A project: its configuration, its files, its places on disk, and its profiles."""
