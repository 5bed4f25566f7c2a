"""The command line: `main` runs it and turns whatever happens into an exit code and, at most, a few lines.

0: clean.  1: an output is stale or a declaration is wrong.  2: wrong usage, or patchgen could not do its work.
130: interrupted.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run `patchgen ARGV`; the exit code."""
    try:
        return _main(argv)
    except KeyboardInterrupt:  # before and after the work, too
        _tell("patchgen: interrupted; nothing was written that is not whole")
        return 130


def _main(argv: Sequence[str]) -> int:
    collecting = gc.isenabled()
    gc.disable()  # A collection walks every syntax tree that is kept, and a command ends before it would pay.
    atexit.register(gc.freeze)  # else Python makes one more, of everything, when the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a name that the locale cannot print is no reason to fail
    try:
        return _run(argv)
    finally:
        if collecting:
            gc.enable()


def _run(argv: Sequence[str]) -> int:
    # Imported here, so that the package itself can be imported for nothing.
    import click

    from patchgen.cli.commands import patchgen
    from patchgen.cli.old_flags import translate
    from patchgen.errors import PatchgenError, problems_of

    _open_streams()
    try:
        code = patchgen.main(translate(argv), prog_name="patchgen", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PatchgenError as error:
        from patchgen.cli.report import exit_code

        problems = problems_of(error)
        _tell("\n".join(str(problem) for problem in problems))
        return exit_code(problems)
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except BrokenPipeError:
        # Whoever read our output has had enough.  Python flushes once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _tell(f"patchgen: {name}{error.strerror or error}; every output is what it was")
        return 2
    except MemoryError:
        _tell("patchgen: there is not enough memory; every output is what it was")
        return 2
    except Exception as error:
        _tell(_defect(error))
        return 2


def _open_streams() -> None:
    """A stream that was closed before the program began is None: what is written to it goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def _defect(error: Exception) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = (
        f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
        if frames
        else "an unknown place"
    )
    if "PATCHGEN_TRACEBACK" in os.environ:
        traceback.print_exception(error)
    return (
        f"patchgen: internal error at {place}: {type(error).__name__}: {' '.join(str(error).split())}. This is a "
        "defect of patchgen; please report it with the command and its files. PATCHGEN_TRACEBACK=1 shows more."
    )
