"""A finding of lint.

A problem that stops nobody from writing an output, and makes the exit status 1.
"""

from __future__ import annotations

from patchgen.errors import Location, Problem


def finding(code: str, at: Location, what: str, hint: str = "") -> Problem:
    """A warning."""
    return Problem(at, code, what, hint, "warning")
