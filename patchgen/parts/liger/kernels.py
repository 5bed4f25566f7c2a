"""The functions of Liger, or how to install them."""

try:
    from liger_kernel.transformers import functional as liger
except ImportError as error:
    raise ImportError("Liger's kernels are not installed: pip install liger-kernel") from error

__all__ = ["liger"]
