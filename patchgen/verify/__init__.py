"""Tiny models, and what their numbers show.  Needs torch and transformers; nothing else in patchgen imports it."""
