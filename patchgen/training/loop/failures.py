"""Turns what stops a run midway into errors that say how to resume.

Complete checkpoints stay, and an unfinished one is removed.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
from collections.abc import Iterator

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.checkpoints import (
    checkpoint_step,
    complete_checkpoints,
    discard_unfinished,
)
from patchgen.training.loop.fit import OutOfMemory, smaller_step_hint, translate_out_of_memory
from patchgen.training.loop.folder import RunFolder, lock_run
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import ignore_termination, is_peer_failure
from patchgen.training.silence import silence_transformers

# Errors of a full or failing disk, or of a limit on the size of files.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
DISK_FULL_SIGNS = (
    "No space left",
    "File too large",
    "Disk quota",
    "os error 28",
    "os error 27",
    "PytorchStreamWriter",
    "inline_container",
)


@contextlib.contextmanager
def guard_run(folder: RunFolder, engine: Engine, *, fresh: bool) -> Iterator[None]:
    """Hold the run's lock, and turn what stops the run into a PatchgenError.

    A `fresh` run that is refused before the first step leaves nothing behind.
    """
    with lock_run(folder, engine), silence_transformers():
        try:
            with _failures(folder, engine):
                yield
        except PatchgenError:
            if fresh and not folder.found():
                folder.forget()
            raise


@contextlib.contextmanager
def _failures(folder: RunFolder, engine: Engine) -> Iterator[None]:
    """Raise what stops a run as an error that says where to resume."""
    collecting = gc.isenabled()
    gc.enable()  # the command line switches it off, but a run is long
    try:
        with translate_out_of_memory():
            yield
    except OutOfMemory as error:
        _leave_whole(folder)
        message = " ".join(str(error).split("\n")[0].split())
        hint = f"{smaller_step_hint(2)}; {resume_hint(folder)}"
        raise PatchgenError(
            "PG816", Location(str(folder.path)), f"there is not enough memory: {message}", hint
        ) from error
    except PatchgenError:
        raise
    except Exception as error:
        if engine.is_distributed and is_peer_failure(error):
            ignore_termination(engine)
            raise _peer_is_gone(folder, engine, error) from error
        if not _is_of_the_disk(error):
            raise
        _leave_whole(folder)
        message = " ".join(str(error).split())
        hint = f"free some space; {resume_hint(folder)}"
        raise PatchgenError(
            "PG910", Location(str(folder.path)), f"cannot be written: {message}", hint
        ) from error
    finally:
        if not collecting:
            gc.disable()


def _peer_is_gone(folder: RunFolder, engine: Engine, error: Exception) -> PatchgenError:
    message = " ".join(str(error).split("\n")[0].split())
    process = f"process {engine.launch.rank} of {engine.launch.world}"
    what = f"{process} cannot go on without the others: {message}"
    hint = f"the launcher's message on the first failed process says why; {resume_hint(folder)}"
    return PatchgenError("PG836", Location(str(folder.path)), what, hint)


def _is_of_the_disk(error: BaseException | None) -> bool:
    """Return whether the error, or one of its causes, is that nothing more can be written."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if any(sign in str(error) for sign in DISK_FULL_SIGNS):
            return True
        error = error.__cause__ or error.__context__
    return False


def _leave_whole(folder: RunFolder) -> None:
    with contextlib.suppress(OSError):
        discard_unfinished(folder.path)


def resume_hint(folder: RunFolder) -> str:
    """Return how to resume a run that ended early."""
    found = complete_checkpoints(folder.path)
    if not found:
        return "the run has no checkpoint yet"
    step = checkpoint_step(found[-1])
    return f"patchgen train --resume {os.path.relpath(folder.path)} goes on after step {step}"
