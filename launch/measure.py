"""Runs the plan of `launch/measure.sh`: what matters first, and nothing twice.

A call runs the steps without a result, one after the other, for at most nine minutes.  Nothing but
files goes from one call to the next: `steps.json` with the exit code and the last words of each
step, and `bench.json` with every figure of the matrix.  Files of former calls are taken from
`measured/`, so bring back what a call wrote, and carry `measured/` along with the next one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RELEASE = "5.23.0"  # of transformers: what the generated files were made from
COMPARED = ("liger-kernel", "triton", "flash-attn", "bitsandbytes")  # that a machine may lack
WAIT = 540.0  # seconds after which a call ends, where a command may take ten minutes
PATIENCE = 10  # times as long for tiny models, which may run on a slow machine
LAST_WORDS = 6000  # characters of a step's output that are kept
STATE = "steps.json"
KEPT = (STATE, "bench.json", "bench.md", "bench-tiny.json", "bench-tiny.md")
# Seconds of each case: most go into compiling.
FIRST = {"L1": 250, "B1": 110, "M1": 140}
THEN = {
    "X1": 80,
    "L2": 140,
    "B2": 140,
    "G1": 120,
    "T1": 170,
    "T2": 170,
    "X2": 80,
    "M2": 80,
    "T3": 120,
}
LARGE = [
    "hidden_size=2048",
    "intermediate_size=8192",
    "num_hidden_layers=8",
    "num_attention_heads=32",
    "num_key_value_heads=8",
    "vocab_size=128256",  # as in real use: what the loss saves depends on it
]


@dataclass(frozen=True, slots=True)
class Step:
    """A command and its seconds; `{out}` is the folder of the results, `{scratch}` of all else."""

    name: str
    command: tuple[str, ...]
    seconds: float


def plan(tiny: bool) -> list[Step]:
    """Return the steps, the most important first."""
    python = (sys.executable, "-m")
    bench = (*python, "benchmarks.bench")
    memory = (*python, "patchgen", "memory")
    train = (*python, "patchgen", "train")
    words = ("import torch, transformers as t; print(torch.__version__, t.__version__)",)
    look = "; print(torch.cuda.get_device_properties(0), torch.backends.cudnn.version())"
    steps = [Step("look", (sys.executable, "-c", words[0] + ("" if tiny else look)), 40)]
    steps.append(Step("loss", (sys.executable, "benchmarks/loss.py"), 60))
    small = ("--tiny",) if tiny else ()

    def case(name: str, seconds: int) -> Step:
        given = ("--folder", "{out}", "--seconds", str(seconds))
        return Step(f"bench-{name}", (*bench, name, *small, *given), seconds + 10)

    steps += [case(*each) for each in FIRST.items()]
    verified = ("llama_fast", "--device", "cpu") if tiny else ("--all", "--jobs", "12")
    limits = ("--mutants", "none", "--megabytes", "12000", "--out", "{out}/parity")
    steps.append(Step("verify", (*python, "patchgen", "verify", *verified, *limits), 160))
    how = ("--precision", "amp-bf16", "--measure", "--output-format", "json")
    large = ("--length", "2048", "--device", "cuda", *how)
    on_cpu = ("--tiny", "--device", "cpu", *how)
    for name, model in (
        ("stock", ("llama",) if tiny else ("llama-1b", "--head", "ForCausalLM")),
        ("variant", ("llama_loss", *(() if tiny else ("--config", "llama-1b")))),
    ):
        steps.append(Step(f"memory-{name}", (*memory, *model, *(on_cpu if tiny else large)), 50))
    trained = ("--save_strategy", "no", "--packing", "concatenated", "--bf16")
    trained += (
        ("--tiny", "--max_steps", "4", "--length", "32", "--use_cpu")
        if tiny
        else ("--max_steps", "60", "--length", "1024", "--config", *LARGE)
    )
    for name in ("llama", "llama_loss"):
        output = ("--output_dir", f"{{scratch}}/{name}")
        steps.append(Step(f"train-{name}", (*train, name, *trained, *output), 80))
    steps += [case(*each) for each in THEN.items()]
    tests = ("tests/train/test_gpu.py",) if tiny else ("tests",)
    steps.append(Step("tests", (*python, "pytest", "-q", "-m", "gpu", *tests), 300))
    return steps


def load(out: Path, before: Path) -> dict[str, dict[str, object]]:
    """Return what former calls did, with their files in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        if (before / name).is_file() and not (out / name).exists():
            shutil.copy(before / name, out / name)
    path = out / STATE
    known: dict[str, dict[str, object]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    )
    return known


def run(step: Step, out: Path, scratch: Path, limit: float) -> dict[str, object]:
    """Return the exit code of a step (-1 where its time was up), its seconds and its last words."""
    words = [word.format(out=out, scratch=scratch) for word in step.command]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    began = time.monotonic()
    with open(scratch / f"{step.name}.txt", "w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            words, cwd=REPOSITORY, stdout=said, stderr=subprocess.STDOUT, env=env
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = -1
        said.seek(0)
        output = said.read()[-LAST_WORDS:]
    return {"code": code, "seconds": round(time.monotonic() - began, 1), "output": output}


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
    """One call; 1 where a step failed, 3 where steps are left for another call."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT", "measured")), help="for results"
    )
    parser.add_argument(
        "--before", type=Path, default=REPOSITORY / "measured", help="results of former calls"
    )
    parser.add_argument("--home", type=Path, default=Path("/tmp/patchgen-measure"))
    parser.add_argument("--wait", type=float, help=f"seconds of this call; {WAIT:.0f} by default")
    parser.add_argument("--plan", action="store_true", help="print the steps and run nothing")
    parser.add_argument("--steps", nargs="+", metavar="NAME", help="only these")
    given = parser.parse_args()
    times = PATIENCE if given.tiny else 1
    steps = [step for step in plan(given.tiny) if not given.steps or step.name in given.steps]
    if given.plan:
        for step in steps:
            print(f"{step.name}, {step.seconds:.0f} s", " ".join(step.command), sep="\n    ")
        return 0
    require_release()
    if missing := missing_packages():
        print(f"not installed: {', '.join(missing)}; entries that need them are unavailable")
    scratch = given.home / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    known = load(given.out, given.before)
    until = time.monotonic() + (given.wait or WAIT * times * (3 if given.tiny else 1))
    left = []
    for step in steps:
        if known.get(step.name, {}).get("code") == 0:
            print(f"{step.name}: done before", flush=True)
            continue
        if time.monotonic() + step.seconds > until:
            left.append(step.name)
            continue
        known[step.name] = run(step, given.out.resolve(), scratch, step.seconds * times)
        text = json.dumps(known, indent=1) + "\n"
        (given.out / STATE).write_text(text, encoding="utf-8")
        code, seconds = known[step.name]["code"], known[step.name]["seconds"]
        print(f"{step.name}: {code} after {seconds} s", flush=True)
    print(f"results in {given.out}")
    failed = [each.name for each in steps if known.get(each.name, {}).get("code", 0) != 0]
    for words, names in (("failed", failed), ("left for another call", left)):
        if names:
            print(f"{words}: {', '.join(names)}")
    if not failed and not left:
        print("all is done")
    return 3 if left else int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
