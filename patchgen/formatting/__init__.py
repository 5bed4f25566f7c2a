"""Format generated texts, with the same bytes under every release of the formatter."""
