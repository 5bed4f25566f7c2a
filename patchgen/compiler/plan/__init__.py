"""Facts to decisions: what names mean, which classes are merged, and what things are called in the flat file."""
