"""The command line: `main` runs a command and turns every outcome into an exit code.

0: clean.  1: an output is stale or a declaration is wrong.  2: wrong usage, or patchgen could not
do its work.  3: a limit was reached.  4: `verify` has not proven everything.  130: interrupted.
"""

from __future__ import annotations

import atexit
import gc
import io
import math
import os
import sys
import warnings
from collections.abc import Sequence

from patchgen.syntax.shown import shown


def main(argv: Sequence[str]) -> int:
    """Run `patchgen ARGV` and return the exit code."""
    collecting = gc.isenabled()
    format_warning = warnings.formatwarning
    try:
        # A collection walks every syntax tree that is kept: a command ends before that would pay.
        gc.disable()
        atexit.register(_leave_memory)
        for name in ("stdout", "stderr"):
            # Python sets a stream that was closed before the program began to None.
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
            # A name that the locale cannot print is no reason to fail.
            if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        # Python warns of a text that it parses, and quotes it.
        warnings.formatwarning = lambda *about: shown(format_warning(*about))
        return _run(argv)
    except KeyboardInterrupt:  # before and after the work, too
        print("patchgen: interrupted; every file that was written is complete", file=sys.stderr)
        return 130
    finally:
        warnings.formatwarning = format_warning
        if collecting:
            gc.enable()


def _run(argv: Sequence[str]) -> int:
    # Imported here, so that importing this package costs nothing.
    import click

    from patchgen.budget import RUN_SECONDS, limit_work
    from patchgen.cli import terminal
    from patchgen.cli.commands import RUN, patchgen
    from patchgen.syntax.errors import Location, PatchgenError, defect, problems_of

    command = next((word for word in argv if not word.startswith("-")), "")
    try:
        # What runs models takes as long as they do, and an editor's server as long as the editor.
        with limit_work(Location(command), math.inf if command in RUN else RUN_SECONDS):
            code = patchgen.main([*argv], prog_name="patchgen", standalone_mode=False)
        if not sys.stdout.closed:  # as a server of editors leaves it
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        usage = io.StringIO()
        error.show(usage)
        terminal.write(usage.getvalue(), err=True)
        return error.exit_code
    except PatchgenError as error:
        from patchgen.cli.report import capped, exit_code

        problems = capped(problems_of(error))
        terminal.write("".join(f"{problem}\n" for problem in problems), err=True)
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
        message = f"{name}{error.strerror or error}; no output has changed"
    except MemoryError:
        message = "there is not enough memory; no output has changed"
    except Exception as error:
        if "PATCHGEN_TRACEBACK" in os.environ:
            import traceback

            terminal.write("".join(traceback.format_exception(error)), err=True)
        message = _say_what_is_missing(command, error) or (
            f"{defect('', error).what}. This is a defect of patchgen; please report it with the "
            "command and its files. PATCHGEN_TRACEBACK=1 shows more."
        )
    terminal.say(f"patchgen: {message}", err=True)
    return 2


def _say_what_is_missing(command: str, error: Exception) -> str:
    """What `command` needs and how that is installed; "" for an error of another kind."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    from importlib.util import find_spec

    from patchgen.project.origin import how_to_install, missing_package

    package = missing_package(error)
    if find_spec(package) is not None:
        return ""  # it is another release that lacks a module
    return f"{command} needs {package}, which is not installed: {how_to_install(package)}"


def _leave_memory() -> None:
    """Let the process end without freeing what patchgen remembers: the system takes back all."""
    modules = [module for name, module in sys.modules.items() if name.startswith("patchgen.")]
    kept: list[object] = [dict(vars(module)) for module in modules]
    # Only a collection frees what refers to itself, and none looks at what is frozen.
    kept.append(kept)
    gc.freeze()
