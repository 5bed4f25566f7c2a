"""The commands of the command line: each takes its options, runs one session, prints, and returns an exit code.

What stands on stdout can be piped: code, diffs, reports.  What tells of the run itself goes to stderr.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli.options import FOLDER, common, reporting
from patchgen.cli.train_switches import switches
from patchgen.training import precision

if TYPE_CHECKING:
    from patchgen.cli.printing import Style
    from patchgen.cli.session import Session

DTYPES = ("float64", "float32", "bfloat16")  # of `verify`
PARTS = ("sdpa", "checkpoint", "loss", "norm", "moe", "grouped", "fused", "flash")  # of `new`
BENCH_TABLES = ("matrix", "finetune", "pretrain", "memory")
ABOVE_0 = click.FloatRange(0, min_open=True)

# Modules that do the work are imported inside the commands: `--help` and completion need none of them.


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from patchgen.cli.about import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    callback=_version,
    expose_value=False,
    is_eager=True,
    help="Print versions.",
)
def patchgen() -> None:
    """Flatten thin subclasses of Hugging Face models into single modeling files, and keep those files true.

    PATHS are modular files or folders of them; without any, what [tool.patchgen] in pyproject.toml names.  A VARIANT
    is named as its file is: llama_loss is what modular_llama_loss.py declares.
    """


@patchgen.command()
@common
@reporting
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; the same as `patchgen check`."
)
@click.option("--diff", "only_diff", is_flag=True, help="Write nothing; print what would change.")
@click.option("--force", is_flag=True, help="Replace files that patchgen did not write.")
@click.option(
    "--stdin-filename",
    metavar="FILE",
    help="The place that the text on stdin (PATHS is -) stands for.",
)
def convert(
    only_check: bool, only_diff: bool, force: bool, stdin_filename: str | None, **rest: Any
) -> int:
    """Write the outputs of modular files, with a diff beside each.

    What each was made from is recorded in patchgen.lock.
    """
    from patchgen.cli import printing

    if rest["paths"] == ("-",):
        from patchgen.cli.stdin import convert_stdin

        return convert_stdin(stdin_filename, **rest)
    if only_check or only_diff:
        return _check(only_diff, **rest)
    with _session(**rest) as session:
        written = session.convert(force=force)
    return printing.written(session.project, written, _style(**rest))


@patchgen.command()
@common
@reporting
@click.option("--diff", "with_diff", is_flag=True, help="Print what would change.")
@click.option(
    "--fix", is_flag=True, help="Write what is stale or missing, remove what is orphaned."
)
def check(with_diff: bool, fix: bool, **rest: Any) -> int:
    """Fail unless every output is what its modular file gives."""
    from patchgen.cli import printing

    if not fix:
        return _check(with_diff, **rest)
    with _session(**rest) as session:
        written = session.convert(remove=True)
    return printing.written(session.project, written, _style(**rest))


@patchgen.command()
@common
@reporting
def diff(**rest: Any) -> int:
    """Print what `convert` would change; write nothing."""
    return _check(True, **rest)


def _check(with_diff: bool, **rest: Any) -> int:
    from patchgen.cli import printing

    with _session(**rest) as session:
        report = session.check()
        drifts = session.drift(report)
    return printing.checked(session.project, report, _style(**rest), drifts, with_diff=with_diff)


@patchgen.command(name="list")
@common
@click.option("--output-format", "form", type=click.Choice(["text", "json"]), default="text")
def list_(form: str, **rest: Any) -> int:
    """Print how large each variant is.

    \b
    declared  lines of code in the modular file, without its docstrings and comments
    added     lines of the outputs that the parent does not have, blank lines left out
    removed   lines of the parent that the outputs do not have
    output    lines of the outputs

    For a new model, which has no diff, `added` counts what comes from elsewhere than its parent.  JSON has the
    outputs, classes and parents too.
    """
    from patchgen.cli import listing

    with _session(**rest) as session:
        report = session.check()
    return listing.print_variants(report, form)


@patchgen.command()
@common
@reporting
def lint(**rest: Any) -> int:
    """Print what is wrong with declarations, whatever the outputs are.

    For modular files of the transformers package: where the files that they ship are not what Python would do.
    """
    from patchgen.cli import printing

    with _session(**rest) as session:
        outcomes = session.lint()
    return printing.linted(session.project, session.found, outcomes, _style(**rest))


@patchgen.command()
@click.argument("target", metavar="FILE[:LINE]")
@click.option("--package-root", type=FOLDER, metavar="DIR", help="Look for parents in DIR first.")
def explain(target: str, package_root: str | None) -> int:
    """Print the plan of a modular file, or where a line came from.

    Of FILE the plan, and the classes after each pass that changed them; of FILE:LINE of an output the line of the
    modular file or of the parent that it was made from.
    """
    from patchgen.cli.explaining import explain_what

    return explain_what(target, package_root=package_root)


@patchgen.command()
@click.argument("names", nargs=-1, metavar="[VARIANT|PATH]...")
@click.option("--all", "everything", is_flag=True, help="Every variant that patchgen.lock records.")
@click.option("--full", is_flag=True, help="Every head, inductor, more ways to generate.")
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(DTYPES),
    help="Only this dtype; may be repeated.",
)
@click.option(
    "--device", metavar="NAME", help="Where models run; cuda where there is one, else cpu."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Variants at a time; by default one a core, or one on a GPU.",
)
@click.option(
    "--mutants",
    metavar="N|all|none",
    default="25",
    show_default=True,
    help="Errors to plant in the changed lines.",
)
@click.option("--output-format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write parity.md, parity.json and mutants.md.",
)
@click.option(
    "--seconds",
    type=ABOVE_0,
    metavar="S",
    default=60,
    show_default=True,
    help="Processor time a case may take.",
)
@click.option(
    "--megabytes",
    type=ABOVE_0,
    metavar="MB",
    default=3072,
    show_default=True,
    help="What a case may take.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print every case as it ends.")
def verify(names: tuple[str, ...], **rest: Any) -> int:
    """Compare variants with their parents: outputs, losses, gradients.

    Shows what really ran, and plants errors that must be seen.  Runs models, in processes of their own: needs torch
    and transformers.  Exit code 1: a case failed, or nothing of a variant was compared.
    """
    from patchgen.cli.verify import verify as run

    return run(names, **rest)


@patchgen.command()
@click.argument("variant")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option(
    "--checkpoint",
    metavar="SRC",
    help="A folder or an id of the Hub: its weights, tokenizer and settings.",
)
def export(variant: str, folder: str, checkpoint: str | None) -> int:
    """Write VARIANT into DIR, to be loaded without patchgen.

    transformers loads DIR with trust_remote_code=True.
    """
    from patchgen.cli.export import export as run

    return run(variant, folder, checkpoint)


@patchgen.command()
@click.argument("codes", nargs=-1, metavar="[PGnnn]...")
@click.option("--markdown", is_flag=True, help="Print the page docs/errors.md.")
def errors(codes: tuple[str, ...], markdown: bool) -> int:
    """Explain error codes; without one, list them.  The beginning of codes, such as PG1, lists those."""
    from patchgen.cli import errors_page

    if markdown:
        click.echo(errors_page.as_markdown(), nl=False)
    else:
        click.echo("\n".join(errors_page.about(code) for code in codes or ("PG",)), nl=False)
    return 0


@patchgen.command()
@click.argument("model")
@click.option(
    "--with", "parts", metavar="PART,...", required=True, help=f"Which: {', '.join(PARTS)}."
)
@click.option(
    "--name", metavar="NAME", help="How the file ends: modular_MODEL_NAME.py; by default the parts."
)
@click.option("--dry-run", is_flag=True, help="Print the file; write nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Write parts that are redundant, and replace a file that is there.",
)
@click.option("--package-root", type=FOLDER, metavar="DIR", help="Look for parents in DIR first.")
def new(model: str, parts: str, **rest: Any) -> int:
    """Write the modular file that puts parts into MODEL.

    MODEL is a modeling module of the installed transformers, such as roformer.  What is not understood in it is named
    with its place.
    """
    from patchgen.cli.new import write_new

    return write_new(model, parts, **rest)


@patchgen.command()
@click.argument("file", metavar="FORK.py", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--parent", metavar="MODEL", help="The model that it was copied from; found by default."
)
@click.option(
    "--package-root",
    type=FOLDER,
    metavar="DIR",
    help="A release of transformers, unpacked, or a folder of such and of wheels; the installed one by default.",
)
@click.option(
    "--release",
    "--releases",
    "asked",
    multiple=True,
    metavar="X|A..B",
    help="Releases to look at: numbers, folders or wheels; may be repeated.",
)
@click.option(
    "--download", is_flag=True, help="Get a release that is not here from pip, into the cache."
)
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Put the declaration into DIR.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Write what is not worth it too, and replace a file that is there.",
)
@click.option("--output-format", "form", type=click.Choice(["text", "json"]), default="text")
def adopt(file: str, **rest: Any) -> int:
    """Write the declaration that gives a fork of a modeling file again.

    FORK.py is a copy of a modeling file of transformers that was changed by hand.  Its declaration is flattened and
    compared with it: exit code 0 says that every class and function came out equal, 1 that not.
    """
    from patchgen.cli.adopt import adopt_fork

    return adopt_fork(file, **rest)


@patchgen.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option(
    "--part", "parts", multiple=True, metavar="PART", help="Only this part; may be repeated."
)
@click.option(
    "--numeric",
    is_flag=True,
    help="Convert, build, verify, and plant errors, in processes of their own.",
)
@click.option("--again", is_flag=True, help="Run again what failed or could not be built.")
@click.option("--most", type=click.IntRange(0), metavar="N", help="Run no more than N numerically.")
@click.option(
    "--folder",
    type=FOLDER,
    metavar="DIR",
    help="Where coverage.json and coverage.md are; docs by default.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Processes; by default one a core.",
)
@click.option(
    "--seconds",
    type=ABOVE_0,
    metavar="S",
    default=180,
    show_default=True,
    help="What a trial may take.",
)
@click.option(
    "--megabytes", type=ABOVE_0, metavar="MB", default=3072, show_default=True, help="Of a trial."
)
@click.option("--package-root", type=FOLDER, metavar="DIR", help="Look for parents in DIR first.")
def coverage(models: tuple[str, ...], **rest: Any) -> int:
    """Write the table of which part goes into which model.

    MODEL is a modeling module of transformers; without any, all of them.  Takes up where it was interrupted.  Exit
    code 1: something failed in a model that this run looked at.
    """
    from patchgen.cli.coverage import coverage as run

    return run(models, **rest)


@patchgen.command()
@click.argument("name", metavar="MODEL")
@click.option(
    "--head", metavar="CLASS", help="The class, or how it ends; by default the one that shows most."
)
@click.option(
    "--config", metavar="SIZE|FILE", help="A published size, such as llama-1b, or a config.json."
)
@click.option("--tiny", is_flag=True, help="A configuration that any machine can run.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the configuration; may be repeated.",
)
@click.option(
    "--batch", type=click.IntRange(1), default=1, show_default=True, help="Rows of a forward pass."
)
@click.option(
    "--length",
    type=click.IntRange(1),
    help="Tokens of a row; 512 where the model has places for them.",
)
@click.option(
    "--precision",
    type=click.Choice(precision.NAMES),
    default="fp32",
    show_default=True,
    help="As of `train`; amp: autocast over float32 weights; pure: weights and states too.",
)
@click.option(
    "--optimizer",
    metavar="NAME",
    default="adamw",
    show_default=True,
    help="sgd, adafactor, momentum, ...",
)
@click.option(
    "--checkpoint",
    metavar="POLICY",
    default="none",
    show_default=True,
    help="none, full or selective.",
)
@click.option(
    "--every", type=click.IntRange(1), default=1, metavar="K", help="Checkpoint each K-th layer."
)
@click.option(
    "--accumulate", type=click.IntRange(1), default=1, metavar="N", help="Batches before a step."
)
@click.option(
    "--attention",
    metavar="NAME",
    default="",
    help="eager, sdpa; by default the model's own choice.",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="cuda with --card or where there is one, else cpu.",
)
@click.option(
    "--engine", metavar="ENGINE", help="Of one rank of several: ddp, fsdp2, tp, zero3, ..."
)
@click.option("--ranks", type=int, metavar="N", help="How many ranks the engine has.")
@click.option(
    "--card", metavar="SIZE", help="Tell the largest batch that fits, such as --card 24GB."
)
@click.option(
    "--measure", is_flag=True, help="Run the step, and show what it took beside the prediction."
)
@click.option("--predict/--no-predict", default=True, help="Leave out the prediction.")
@click.option(
    "--figure", metavar="FILE", type=click.Path(dir_okay=False), help="Draw the step as SVG."
)
@click.option(
    "--output-format", "form", type=click.Choice(["text", "json", "markdown"]), default="text"
)
def memory(name: str, **rest: Any) -> int:
    """Predict what a step of training MODEL holds in memory.

    MODEL is a variant, a model type of transformers or a published size, such as llama-8b.  It is run on shapes:
    nothing of it needs to fit here.
    """
    from patchgen.cli.memory import memory as run

    return run(name, **rest)


@patchgen.command()
@click.argument("ids", nargs=-1, metavar="[CASE]...")
@click.option(
    "--table",
    type=click.Choice(BENCH_TABLES),
    default="matrix",
    show_default=True,
    help="Which cases.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this contestant or variant, beside its anchor.",
)
@click.option(
    "--compiled",
    is_flag=True,
    help="Only what is compiled, beside its anchor: fills torch's caches.",
)
@click.option(
    "--tiny", is_flag=True, help="Tiny models on the CPU, within a minute: checked, not timed."
)
@click.option("--device", metavar="NAME", help="Where models run; cuda where there is one.")
@click.option(
    "--folder", metavar="DIR", default="bench", show_default=True, type=click.Path(file_okay=False)
)
@click.option(
    "--seconds", type=ABOVE_0, metavar="S", help="What all of it may take; 450 by default."
)
@click.option("--again", is_flag=True, help="Run anew what is known already.")
@click.option(
    "--look", is_flag=True, help="Only print what this machine is and which attention it runs."
)
def bench(ids: tuple[str, ...], **rest: Any) -> int:
    """Time variants on this GPU beside what people use instead.

    Takes up where it was interrupted.  Exit code 1: something was wrong, or failed.
    """
    from patchgen.cli.bench import bench as run

    return run(ids, **rest)


@patchgen.command()
@click.argument("model", required=False)
@switches
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The run's folder; else in runs/.",
)
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(file_okay=False),
    help="Go on with a run, as it was begun.",
)
@click.option(
    "--at",
    type=click.IntRange(0),
    metavar="STEP",
    help="The checkpoint to go on from, if not the last.",
)
@click.option(
    "--search",
    metavar="WHAT",
    help="Look for settings: loss, throughput or both, with trials= and steps=.",
)
def train(model: str | None, **rest: Any) -> int:
    """Train MODEL: a variant, a model type of transformers, or a checkpoint.

    By transformers' Trainer, on text that patchgen ships or on yours; needs 'patchgen[train]'.  The run's folder has
    the exact configuration, releases, figures, a picture of the loss, checkpoints and the model.
    """
    from patchgen.cli.train import train as run

    return run(model, **rest)


def _session(**options: Any) -> AbstractContextManager[Session]:
    from patchgen.cli.progress import session_with_progress

    return session_with_progress(**options)


def _style(quiet: bool, verbose: bool, output_format: str | None, **_rest: Any) -> Style:
    from patchgen.cli.printing import make_style

    return make_style(quiet, verbose, output_format)
