"""The numeric proof: compare a tiny variant with its parent.  Needs torch and transformers."""
