"""`patchgen convert` under the name that transformers gives it; works without an installation."""

import sys
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    if find_spec("patchgen") is None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from patchgen.__main__ import main

    main(["convert", *sys.argv[1:]])
