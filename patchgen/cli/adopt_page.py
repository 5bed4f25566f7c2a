"""`patchgen adopt --page`: the page of an adopted fork."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.compiler.settings import Settings
from patchgen.project.write import replace_file
from patchgen.syntax.locate import make_environment

if TYPE_CHECKING:
    from patchgen.author.adopt.report import Report


def write_adopted_page(report: Report, name: str, folder: Path, settings: Settings) -> Path:
    """Write the page of the declaration `name` into `folder` and return its path.

    It shows the declaration, the file that it gives, and the parent of the release that the fork
    was made from.  Raises Refusals with the problems of a declaration that gives no file.
    """
    from patchgen.cli.page.render import render_page
    from patchgen.cli.page.trace import trace_variant
    from patchgen.cli.page.verdicts import Verdict

    adopted = report.adopted
    # As it was proved: where the file was written, another release may be found.
    with tempfile.TemporaryDirectory(prefix="patchgen-") as scratch:
        home = Path(scratch).resolve()
        path = home / "modular" / name
        path.parent.mkdir()
        path.write_text(adopted.text, encoding="utf-8", newline="\n")
        env = make_environment(home, report.found.release.root())
        variant = trace_variant(path, env, settings)
    level = "good" if adopted.proof.holds else "bad"
    fork = adopted.forked.fork.source.path
    details = (f"compared with {fork}", *report.text().splitlines())
    html = render_page(variant, [Verdict("adopt", level, report.equality, details)])
    target = folder / f"{variant.name}.html"
    replace_file(target, html.encode())
    return target
