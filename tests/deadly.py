"""Work for worker processes that kills some of them: it must be importable by its name there."""

from __future__ import annotations

import os
import signal


def work(profile, modulars):
    """As the pool's own work, but a file named `deadly` kills the process."""
    from patchgen.project import pool

    if any("deadly" in modular.path.name for modular in modulars):
        os.kill(os.getpid(), signal.SIGKILL)
    return pool._work(profile, modulars)
