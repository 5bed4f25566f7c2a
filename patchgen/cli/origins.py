"""Say which line of a modular file or of a parent a line of an output was made from.

File "generated/llama/modeling_llama_loss.py", line 602, in forward
  made from modular/llama/modular_llama_loss.py:31
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import click

from patchgen.cli import terminal
from patchgen.cli.session import Request, open_project
from patchgen.project.files import Project
from patchgen.project.lock import Record, load_records, shorten
from patchgen.project.outcome import digest_of, digest_of_file
from patchgen.syntax.errors import Location, PatchgenError

_FRAME = re.compile(r'\s*File "(.+)", line (\d+)')


def find_origin(project: Project, record: Record, path: Path, line: int) -> Location | None:
    """Where a line of the output at `path` comes from; its modular file is read again.

    None for a blank line, and for one that patchgen itself wrote.  Raises ClickException for an
    output that the modular file does not give.
    """
    from patchgen.pages.trace import trace_variant

    modular = project.home / record.modular
    for output in trace_variant(modular, project.environment(), project.config.settings).outputs:
        if (output.file.name, digest_of(output.file.text)) == (path.name, digest_of_file(path)):
            for source in output.links[line - 1].sources:
                return Location(source.path, source.first, 1)
            return None
    why = "it was edited by hand"
    if shorten(digest_of_file(path)) == record.digest:
        why = f"{record.modular} does not give it now"
    raise click.ClickException(f"{record.output}: {why}; `patchgen convert` writes it anew")


def find_source(project: Project, shown: str) -> Path | None:
    """The file that messages call `shown`."""
    paths = (root / shown for root in project.environment().roots)
    return next((path for path in paths if path.is_file()), None)


def map_traceback(text: str) -> str:
    """A traceback with the lines that those of outputs of this project were made from."""
    project = open_project(Request())
    records = load_records(project)
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if frame := _FRAME.match(line):
            lines += _explain_frame(project, records, Path(frame[1]).resolve(), int(frame[2]))
    return "".join(f"{line}\n" for line in lines)


def explain_tracebacks() -> None:
    """From now on, say of an uncaught error which lines those of outputs were made from.

    The outputs are those of the project around the current folder.
    """

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        terminal.write(map_traceback(text), err=True)

    sys.excepthook = show  # where it fails, Python prints both errors


def _explain_frame(
    project: Project, records: Mapping[Path, Record], path: Path, line: int
) -> list[str]:
    if path not in records:
        return []
    try:
        origin = find_origin(project, records[path], path, line)
    except (PatchgenError, click.ClickException) as error:
        return [f"      not known: {error}"]
    return [f"      made from {origin.path}:{origin.line}"] if origin else []
