"""Make a finding of lint: a warning, with which outputs are still written and the exit status is
1.
"""

from __future__ import annotations

from patchgen.syntax.errors import Location, Problem


def finding(code: str, at: Location, what: str, hint: str = "") -> Problem:
    """A warning."""
    return Problem(at, code, what, hint, "warning")
