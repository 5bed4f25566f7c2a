"""The command line, as `patchgen` and as `python -m patchgen`."""

import sys


def main() -> None:
    """Run the command line on `sys.argv` and exit with its status."""
    try:
        # Imported here: worker processes import this module too, and use no command line.
        from patchgen.cli import main as run
    except KeyboardInterrupt:  # from then on `run` answers for it
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
