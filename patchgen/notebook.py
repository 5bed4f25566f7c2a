"""The commands as functions, for notebooks and scripts.

Each does what the command of its name does, in the project around the current folder:

    import patchgen
    patchgen.new("qwen3", "loss,norm")   # modular/qwen3/modular_qwen3_loss_norm.py
    patchgen.convert()                   # what was written
    patchgen.check()                     # findings: none, everything is up to date
    patchgen.verify("qwen3_loss_norm")   # whether it computes what its parent does

Names are those of variants, paths of modular files, or folders of them; without one it is about the
whole project.  What a command prints as an error is raised as a PatchgenError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.author.declare.request import answer, names_of, require_parts
from patchgen.author.modular_text import format_modular
from patchgen.author.published import find_published
from patchgen.cli.session import Request, open_authored, open_session
from patchgen.project.files import modular_path
from patchgen.project.write import refuse_another, write_new
from patchgen.syntax.errors import Problem, Refusals
from patchgen.verifying.report import (
    Proof,
    Result,
    as_markdown,
    describe_run,
    find_device,
    find_proofs,
)
from patchgen.verifying.run import Limits, Wanted
from patchgen.verifying.run import verify as run_cases
from patchgen.verifying.variants import DTYPES, SECONDS, Plan, find_variants, home_of


def new(model: str, parts: str | Sequence[str], *, force: bool = False) -> Path:
    """Write the modular file that puts `parts` into `model`, and return its path.

    `model` is a type of the installed transformers, or a checkpoint whose configuration is at hand;
    `parts` are a list or a text with commas.  `force` writes redundant parts too, and replaces an
    existing file.  Nothing is proven: `patchgen verify` does that.

    Raises PatchgenError: PG801 for an unknown model, PG802 for an unknown part, PG803 for a part
    that does not fit, PG804 for a file that is there already.
    """
    project = open_authored(Request())
    env = project.environment()
    module = find_published(env, model, project.home)
    reply = answer(env, module, names_of(parts), force=force)
    require_parts(reply, model)
    path = modular_path(project.config, reply.module.alias, reply.ending)
    text = format_modular(reply.text, project.config.settings)
    shown = env.display_path(path)
    refuse_another(path, text, project.home, force, shown)
    write_new(path, text, project.home, force, shown)
    return path


def convert(*names: str) -> tuple[str, ...]:
    """Write the outputs of modular files, and return the paths of those that were not up to date.

    Raises Refusals with everything that stands in the way; the other outputs are written.
    """
    written = open_session(Request(names)).convert()
    problems = [problem for problem in written.remaining if problem.severity == "error"]
    if problems:
        raise Refusals(problems)
    return written.written


def check(*names: str) -> tuple[Problem, ...]:
    """Return what is not up to date or wrong; nothing where all is well.  Nothing is written."""
    return open_session(Request(names)).check().findings


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found; a notebook shows it as the page that `--out` writes."""

    proofs: Mapping[str, Proof]  # the verdict of each variant
    results: tuple[Result, ...] = field(repr=False)
    page: str = field(repr=False)

    @property
    def is_proven(self) -> bool:
        """Whether all variants are proven equal to their parents."""
        return all(proof.verdict == "proven" for proof in self.proofs.values())

    def __str__(self) -> str:
        return "\n".join(f"{name}: {proof}" for name, proof in self.proofs.items())

    def _repr_markdown_(self) -> str:
        return self.page


def verify(
    *names: str,
    full: bool = False,
    dtypes: Sequence[str] = (),
    mutants: int | None = 25,
    device: str | None = None,
    seed: int = 0,
    checkpoint: str = "",
    data: str = "",
    steps: int = 10,
    length: int = 128,
) -> Verification:
    """Compare variants with their parents, and return what was found.

    Without `full` a variant gets a minute of the processor.  `mutants` is how many errors are
    planted in the changed lines, None all of them.  Nothing is written.  Needs torch.

    With `checkpoint` (a folder, a GGUF file, or an id on the Hub) and `data` (a text file), both
    models have its weights: rows of `length` tokens are compared, and `steps` of training, in
    float32 unless `dtypes` says bfloat16.  Needs accelerate and datasets too.

    Raises PatchgenError: PG916 for a name of no variant, PG917 where nothing can be compared, and
    PG811 to PG816 where a checkpoint or data cannot be read, or does not fit into memory.
    """
    chosen = find_variants(home_of(names), names)
    where = find_device(device)
    about = describe_run(f"patchgen verify {' '.join(names)}".rstrip(), where, chosen)
    if checkpoint:
        from patchgen.training.real.found import as_page, results_of
        from patchgen.training.real.run import fill, plan_runs

        more = {"steps": steps, "length": length, "device": where, "seed": seed}
        every = plan_runs(chosen, dtypes, checkpoint, data, **more)
        stopped = fill(every)
        page = as_page(every, about)
        if stopped is not None:
            stopped.add_note(page)
            raise stopped
        results = results_of(every)
    else:
        plan = Plan(full, tuple(dtypes) or DTYPES, True, mutants, None if full else SECONDS, seed)
        results = run_cases(chosen, Wanted(plan, where, Limits()))
        page = as_markdown(chosen, results, about)
    proofs = find_proofs([variant.name for variant in chosen], results)
    return Verification(proofs, results, page)
