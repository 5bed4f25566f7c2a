"""The environment of every test, set before anything imports torch or transformers; and which tests stay together."""

import atexit
import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile

import pytest

# Commands import these when they need them.  First imported while a test replaces a function that
# they use, they would keep the replacement for all tests that follow.
import patchgen.project.convert
import patchgen.project.drift
import patchgen.project.flattening  # noqa: F401

os.environ["OMP_NUM_THREADS"] = (
    "1"  # small models on shared cores: more threads are slower, and sums differ
)
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"
# What patchgen keeps of the projects of tests must not lie in the user's own cache.
if "PATCHGEN_CACHE_DIR" not in os.environ:
    os.environ["PATCHGEN_CACHE_DIR"] = tempfile.mkdtemp(prefix="patchgen-tests-")
    atexit.register(shutil.rmtree, os.environ["PATCHGEN_CACHE_DIR"], ignore_errors=True)
# Hundreds of processes start here: each would compile patchgen anew where the caller keeps no compiled files.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What a shell starts in the background ignores interrupts, and so would each process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def forget_where_generated_lay():
    """`inspect` remembers the file of each module by its name.  Tests import packages `generated` of their own; where
    one had a file and the next has none, it raises TypeError, at the first operator that torch registers."""
    yield
    getattr(inspect, "_filesbymodname", {}).pop("generated", None)


@pytest.fixture
def own_generated():
    """A test that imports packages `generated` of its own; the tests that follow have those they had.

    transformers reads the source of a class by its module's entry, and finds none where it is gone."""

    def entries():
        return {
            name: sys.modules[name] for name in sys.modules if name.partition(".")[0] == "generated"
        }

    before = entries()
    yield
    for name in entries():
        del sys.modules[name]
    sys.modules.update(before)


def pytest_collection_finish(session):
    """What torch, transformers and the tests are made of stays until the end: to look through it at each collection of
    garbage, which Trainer asks for at the end of every run, took a quarter of the time of such tests."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """What is given most time begins first, and the thousands of small tests of `unit` come last, so that at the
    end no worker waits for another one's longest test."""
    items.sort(key=lambda item: (-_seconds(item), item.nodeid.startswith("tests/unit/")))


def _seconds(item):
    given = item.get_closest_marker("timeout")
    return given.args[0] if given and item.get_closest_marker("slow") else 0


# Files that set up once what takes long, or keep what they have read; of a folder, each of its files.
# (xdist's own mark for this, `xdist_group`, does nothing under pytest 9.2.)
ONE_WORKER = (
    "tests/bench/",
    "tests/contract/test_cli.py",
    "tests/contract/test_concurrency.py",
    "tests/contract/test_interpreters.py",
    "tests/contract/test_modular_files.py",
    "tests/contract/test_wheel.py",
    "tests/launch/test_measure.py",
    "tests/memory/test_ranks.py",
    "tests/parallel/test_killed.py",
    "tests/parallel/test_meeting.py",
    "tests/parallel/test_mixed.py",
    "tests/parallel/test_proof.py",
    "tests/parallel/test_split.py",
    "tests/parallel/test_zero.py",
    "tests/parity/test_planted.py",
    "tests/population/",
    "tests/train/test_failures.py",
    "tests/train/test_path.py",
    "tests/train/test_rows.py",
    "tests/unit/anatomy/test_table.py",
    "tests/unit/declare/",
    "tests/unit/page/",
    "tests/unit/verify/",
    "tests/unpatch/test_unpatch.py",
    "tests/use/test_in_a_notebook.py",
    "tests/use/test_use.py",
)
# Files whose tests build models for each variant once: it is the first word of their ids.
ONE_WORKER_A_VARIANT = {"tests/parity/test_gallery.py"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """All tests of such a file, or of a variant in it, go to one worker, each other test to whichever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            if file in ONE_WORKER_A_VARIANT and "[" in nodeid:
                variant = nodeid.partition("[")[2].rstrip("]").split()[0]
                return f"{file} {variant}"
            return file if file.startswith(ONE_WORKER) else nodeid

    return Scheduling(config, log)
