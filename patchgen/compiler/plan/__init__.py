"""Decide what names mean, which classes are merged, and what the flat file calls things."""
