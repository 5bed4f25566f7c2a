"""Runs the plan of `launch/measure.sh` in a worker that outlives the call that started it.

The first call starts the worker, and each later call attaches to it.  A call shows the progress and
ends after some minutes, with the results so far in a folder.  A command that fails or takes too
long is reported, and the next one runs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RELEASE = "5.23.0"  # of transformers: what the generated files were made from
COMPARED = ("liger-kernel", "triton", "flash-attn", "bitsandbytes")  # that a machine may lack
LEASE = 1620.0  # seconds of half an hour, without what starting the machine and the transfers take
PATIENCE = 10  # times as long for tiny models, which may run on a slow machine
WAIT = 540.0  # seconds after which a call ends, where a command may take ten minutes
MOST_FILES, MOST_BYTES = 8, 16 * 10**6  # that come back
STATE, LOG, RESULTS = "steps.json", "log.txt", "results"
BEAT = 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """Commands that run at once, and their seconds; with `grows` also the unused seconds of earlier
    steps.

    In a command, `{seconds}` is its limit, `{results}` the folder for its results, and `{scratch}`
    a folder that nobody reads.  Its output goes into `<name>.txt`.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    seconds: float
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a step: the exit code of each command, -1 where it was ended.

    `began` counts from the start of the lease.
    """

    name: str
    codes: tuple[int, ...]
    began: float
    seconds: float


def plan(tiny: bool) -> tuple[Step, ...]:
    """The steps, in the order in which they matter."""
    device = "cpu" if tiny else "cuda"
    patchgen = (sys.executable, "-m", "patchgen")
    bench = (*patchgen, "bench", *(("--tiny",) if tiny else ()), "--seconds", "{seconds}")
    pytest = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "-o",
        "minversion=7",
    )
    tests = (*pytest, "tests/bench/test_gpu.py", "tests/train/test_gpu.py")
    steps = [
        Step("tests", (tests,), 180),
        Step("look", ((*patchgen, "bench", "--look", "--device", device),), 90),
        Step("warm", _warm(bench, tiny), 200),
        Step("matrix", ((*bench, "--folder", "{results}"),), 520, grows=True),
    ]
    for table in ("finetune", "pretrain", "memory"):
        steps.append(
            Step(f"table-{table}", ((*bench, "--table", table, "--folder", "{results}"),), 100)
        )
    steps += [
        Step(f"memory-{name}", (command,), 40)
        for name, command in _memory((*patchgen, "memory"), tiny)
    ]
    steps += [
        Step(f"train-{name}", (command,), 75)
        for name, command in _train((*patchgen, "train"), tiny)
    ]
    return tuple(replace(step, seconds=step.seconds * (PATIENCE if tiny else 1)) for step in steps)


def _warm(bench: tuple[str, ...], tiny: bool) -> tuple[tuple[str, ...], ...]:
    """Return commands that compile the matrix's models in parallel; torch caches them on disk."""
    tables = (("--table", "finetune"), ("--table", "pretrain"))
    # No more at once than the device has memory for; Llama's cases take most of it.
    large = (("L1", "L2"), ("B1", "B2"), ("G1", "M", "X1"), *tables)
    groups = (("X1-mpnet",),) if tiny else large
    return tuple(
        (*bench, *ids, "--compiled", "--folder", f"{{scratch}}/{ids[-1]}") for ids in groups
    )


def _memory(memory: tuple[str, ...], tiny: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Predicted beside measured: stock and variant, in the precision that most people train in."""
    if tiny:
        return [
            (
                "llama",
                (
                    *memory,
                    "llama",
                    "--tiny",
                    "--device",
                    "cpu",
                    "--measure",
                    "--output-format",
                    "json",
                ),
            )
        ]
    how = (
        "--precision",
        "amp-bf16",
        "--length",
        "2048",
        "--device",
        "cuda",
        "--measure",
        "--output-format",
        "json",
    )
    stock = (*memory, "llama-1b", "--head", "ForCausalLM", *how)
    ours = (*memory, "llama_loss", "--config", "llama-1b", "--head", "ForCausalLM", *how)
    return [("stock", stock), ("variant", ours)]


def _train(train: tuple[str, ...], tiny: bool) -> list[tuple[str, tuple[str, ...]]]:
    """The same recipe with the stock model and with a variant."""
    small = ("--tiny", "--steps", "4", "--device", "cpu", "--length", "32", "--save-every", "0")
    large = (
        *(
            "--steps",
            "200",
            "--length",
            "1024",
            "--batch-size",
            "8",
            "--save-every",
            "0",
            "--device",
            "cuda",
        ),
        *(
            "--config",
            "hidden_size=2048",
            "--config",
            "intermediate_size=8192",
            "--config",
            "num_hidden_layers=8",
        ),
        *(
            "--config",
            "num_attention_heads=32",
            "--config",
            "num_key_value_heads=8",
            "--learning-rate",
            "1e-4",
        ),
    )
    how = (*(small if tiny else large), "--precision", "amp-bf16")
    return [
        (name, (*train, name, *how, "--output", f"{{results}}/train-{name}"))
        for name in ("llama", "llama_loss")
    ]


class Worker:
    """Runs the steps one after the other and writes down what came of each."""

    def __init__(self, home: Path, steps: Sequence[Step], lease: float) -> None:
        self.home, self.steps, self.lease = home, steps, lease
        self.results, self.scratch = home / RESULTS, home / "scratch"
        self.began = time.monotonic()
        self.done: list[Done] = []

    def run(self) -> None:
        """All of it."""
        for folder in (self.results, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        for number, step in enumerate(self.steps):
            later = sum(each.seconds for each in self.steps[number + 1 :])
            self._write(step.name)
            self._run(step, self._limit(step, later))
        self._write("")

    def _limit(self, step: Step, later: float) -> float:
        """Return the seconds of a step: its own, and with `grows` what later steps do not need."""
        left = self.lease - (time.monotonic() - self.began)
        wanted = max(step.seconds, left - later) if step.grows else step.seconds
        return max(0.0, min(wanted, left))

    def _run(self, step: Step, limit: float) -> None:
        began = time.monotonic()
        with ThreadPoolExecutor(len(step.commands)) as pool:
            codes = tuple(
                pool.map(lambda each: self._command(step, *each, limit), enumerate(step.commands))
            )
        self.done.append(
            Done(step.name, codes, round(began - self.began, 1), round(time.monotonic() - began, 1))
        )
        print(
            f"{step.name}: {', '.join(map(str, codes))} after {self.done[-1].seconds:.0f} s",
            flush=True,
        )

    def _command(self, step: Step, number: int, command: Sequence[str], limit: float) -> int:
        """The exit code; -1 where the time was up."""
        if limit <= 0:
            return -1
        # `bench` ends by itself before it would be ended, and writes its pages.
        known = {
            "seconds": f"{max(10, int(limit) - 25)}",
            "results": str(self.results),
            "scratch": str(self.scratch),
        }
        words = [word.format(**known) for word in command]
        several = f"-{number}" if len(step.commands) > 1 else ""
        with open(self.results / f"{step.name}{several}.txt", "wb") as said:
            process = subprocess.Popen(
                words,
                cwd=REPOSITORY,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._env(),
            )
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return -1

    def _env(self) -> dict[str, str]:
        kept = {
            "TORCHINDUCTOR_CACHE_DIR": str(self.home / "inductor"),
            "TRITON_CACHE_DIR": str(self.home / "triton"),
            "PATCHGEN_CACHE_DIR": str(self.home / "cache"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return {**os.environ, **kept}

    def _write(self, running: str) -> None:
        """What is known so far; whole or not at all."""
        known = {
            "running": running,
            "done": [asdict(each) for each in self.done],
            "left": [step.name for step in self.steps[len(self.done) :]],
        }
        beside = self.home / f".{STATE}"
        beside.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.home / STATE)


def is_alive(home: Path) -> bool:
    """Whether a worker holds its lock there."""
    with open(home / "lock", "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def state_of(home: Path) -> dict[str, object]:
    """What the worker wrote down last; nothing before it began."""
    path = home / STATE
    known: dict[str, object] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known


def begin(home: Path, words: Sequence[str]) -> None:
    """Start the worker in a session of its own, so that it outlives this call."""
    command = [sys.executable, sys.argv[0], "--home", str(home), "--work", *words]
    with open(home / LOG, "ab") as log:
        subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    until = time.monotonic() + 30
    while time.monotonic() < until and not (home / STATE).exists():
        time.sleep(0.05)


def follow(home: Path, wait: float) -> bool:
    """Show what the worker says until it has ended or time is up; whether it has ended."""
    until, printed = time.monotonic() + wait, 0
    while True:
        alive = is_alive(home)
        said = (
            (home / LOG).read_text(encoding="utf-8", errors="replace")
            if (home / LOG).exists()
            else ""
        )
        print(said[printed:], end="", flush=True)
        printed = len(said)
        if not alive or time.monotonic() > until:
            return not alive
        time.sleep(BEAT)


def copy_results(home: Path, out: Path) -> list[str]:
    """The results so far in `out`, as few files as may come back; what was left out, and why."""
    out.mkdir(parents=True, exist_ok=True)
    results = home / RESULTS
    alone = [
        home / STATE,
        *(results / name for name in ("look.txt", "bench-matrix.json", "bench-matrix.md")),
    ]
    for path in alone:
        if path.exists():
            shutil.copy(path, out / path.name)
    left = []
    with tarfile.open(out / "results.tar.gz", "w:gz") as packed:
        for path in sorted(results.rglob("*")):
            # Weights are what a run can make again.
            if path.suffix in (".safetensors", ".pt", ".bin"):
                left.append(f"{path.relative_to(results)}: weights")
            elif path.is_file():
                packed.add(path, str(path.relative_to(results)))
    for path in sorted(out.iterdir()):
        if path.stat().st_size > MOST_BYTES:
            left.append(f"{path.name}: {path.stat().st_size} bytes")
            path.unlink()
    assert len(list(out.iterdir())) <= MOST_FILES
    return left


def require_release() -> None:
    """Generated files import what their parents' release has."""
    here = metadata.version("transformers")
    if here != RELEASE:
        what = f"transformers {RELEASE} is needed and {here} is here"
        sys.exit(f"{what}: run launch/wheels.sh where there is a network, and bring .wheels/ along")


def missing_packages() -> list[str]:
    """Packages that some entries of the benchmark need, and that are not here."""
    here = {each.metadata["Name"].lower().replace("_", "-") for each in metadata.distributions()}
    return [name for name in COMPARED if name not in here]


def main() -> int:
    """One call; 1 where a step failed, 3 where the worker goes on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    parser.add_argument(
        "--home", type=Path, default=Path("/tmp/patchgen-measure"), help="where the worker works"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT", "measured")), help="where results go"
    )
    parser.add_argument(
        "--wait",
        type=float,
        help=f"seconds after which this call ends: {WAIT:.0f} by default, all with --tiny",
    )
    parser.add_argument("--lease", type=float, help=f"seconds of the whole; {LEASE:.0f} by default")
    parser.add_argument("--plan", action="store_true", help="print the steps and run nothing")
    parser.add_argument("--steps", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--again", action="store_true", help="begin anew where it has ended")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.lease = given.lease or LEASE * (PATIENCE if given.tiny else 1)
    # Only a machine that is lent for a GPU ends commands after ten minutes.
    given.wait = given.wait or (given.lease if given.tiny else WAIT)
    steps = [step for step in plan(given.tiny) if not given.steps or step.name in given.steps]
    if given.plan:
        for step in steps:
            print(
                f"{step.name}, {step.seconds:.0f} s",
                *(" ".join(each) for each in step.commands),
                sep="\n    ",
            )
        return 0
    given.home.mkdir(parents=True, exist_ok=True)
    if given.work:
        with open(given.home / "lock", "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            Worker(given.home, steps, given.lease).run()
        return 0
    require_release()
    if missing := missing_packages():
        names = ", ".join(missing)
        print(f"not installed: {names}; the tables call what needs them unavailable", flush=True)
    if not is_alive(given.home) and (given.again or not state_of(given.home)):
        for name in (STATE, LOG):
            (given.home / name).unlink(missing_ok=True)
        shutil.rmtree(given.home / RESULTS, ignore_errors=True)
        words = ["--lease", str(given.lease), *(["--tiny"] if given.tiny else [])]
        begin(given.home, [*words, *(["--steps", *given.steps] if given.steps else [])])
    ended = follow(given.home, given.wait)
    for each in copy_results(given.home, given.out):
        print(f"left out: {each}")
    return report(state_of(given.home), given.out, ended)


def report(state: dict[str, object], out: Path, ended: bool) -> int:
    """Say where things stand; the exit code."""
    print(f"results in {out}")
    if not ended:
        print(
            f"the worker goes on with {state.get('running')}: the same command again attaches to it"
        )
        return 3
    done: list[dict[str, list[int]]] = state.get("done", [])  # type: ignore[assignment]
    failed = []
    for each in done:
        if any(each["codes"]):
            failed.append(f"{each['name']}{' (out of time)' if -1 in each['codes'] else ''}")
    left = state.get("left") or []
    for words, names in (("failed", failed), ("not run", left)):
        if names:
            print(f"{words}: {', '.join(names)}")  # type: ignore[arg-type]
    print(
        "all is done"
        if not left
        else "the worker has ended before all was done: --again begins anew"
    )
    return int(bool(failed or left))


if __name__ == "__main__":
    sys.exit(main())
