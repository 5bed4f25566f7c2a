"""The command line, as `patchgen` and as `python -I -m patchgen`.

Without -I, Python itself searches the current folder before this is run.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line on `argv`, by default that of the process, and exit with its status."""
    # Before anything is imported, and for good: `run` would enable it again, and the collection
    # that follows then walks everything once more.
    gc.disable()
    here = os.getcwd()
    # `python -m` puts the current folder first: a tomllib.py there would take part in the check.
    # Where patchgen itself lies there, its repository is what runs.
    if sys.path[:1] == [here] and os.path.dirname(os.path.dirname(__file__)) != here:
        del sys.path[0]
    try:
        # Imported here: worker processes import this module too, and use no command line.
        from patchgen.cli import main as run
    except KeyboardInterrupt:  # from then on `run` answers for it
        sys.exit(130)
    sys.exit(run(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    main()
