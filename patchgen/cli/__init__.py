"""The command line: `main` runs a command and turns every outcome into an exit code.

0: clean.  1: an output is stale or a declaration is wrong.  2: wrong usage, or patchgen could not
do its work.  130: interrupted.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run `patchgen ARGV` and return the exit code."""
    try:
        return _main(argv)
    except KeyboardInterrupt:  # before and after the work, too
        _print_error("patchgen: interrupted; every file that was written is complete")
        return 130


def _main(argv: Sequence[str]) -> int:
    collecting = gc.isenabled()
    # A collection walks every syntax tree that is kept, and a command ends before that would pay.
    gc.disable()
    atexit.register(_leave_memory)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the locale cannot print is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    finally:
        if collecting:
            gc.enable()


def _run(argv: Sequence[str]) -> int:
    # Imported here, so that importing this package costs nothing.
    import click

    from patchgen.cli.commands import patchgen
    from patchgen.cli.old_flags import translate
    from patchgen.syntax.errors import PatchgenError, problems_of

    _open_streams()
    try:
        code = patchgen.main(translate(argv), prog_name="patchgen", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PatchgenError as error:
        from patchgen.cli import colour
        from patchgen.cli.report import exit_code

        problems = problems_of(error)
        colour.write("".join(f"{problem}\n" for problem in problems), sys.stderr)
        return exit_code(problems)
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except BrokenPipeError:
        # The reader of our output stopped reading, as `head` does.  Python flushes once more at
        # exit: send that to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _print_error(f"patchgen: {name}{error.strerror or error}; no output has changed")
        return 2
    except MemoryError:
        _print_error("patchgen: there is not enough memory; no output has changed")
        return 2
    except Exception as error:
        _print_error(_describe_defect(error))
        return 2


def _leave_memory() -> None:
    """Let the process end without freeing what patchgen remembers: the system takes back all."""
    modules = [module for name, module in sys.modules.items() if name.startswith("patchgen.")]
    kept: list[object] = [dict(vars(module)) for module in modules]
    # Only a collection frees what refers to itself, and none looks at what is frozen.
    kept.append(kept)
    gc.freeze()


def _open_streams() -> None:
    """Replace streams that were closed before the program began, which Python sets to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)


def _describe_defect(error: Exception) -> str:
    import traceback

    place = "an unknown place"
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
    if "PATCHGEN_TRACEBACK" in os.environ:
        traceback.print_exception(error)
    message = " ".join(str(error).split())
    return (
        f"patchgen: internal error at {place}: {type(error).__name__}: {message}. "
        "This is a defect of patchgen; please report it with the command and its files. "
        "PATCHGEN_TRACEBACK=1 shows more."
    )
