"""Flatten thin subclasses of Hugging Face models into single modeling files, statically.

This package imports nothing by itself, so that `import patchgen` costs nothing.
"""

__version__ = "0.1.0"
