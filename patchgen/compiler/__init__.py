"""Flatten one modular file; `flatten.py` shows the whole way."""
