"""Counts the forks that `patchgen adopt` reproduces, and the length of its declarations.

python benchmarks/adopt.py FORKS RELEASES [--parent MODEL]
python benchmarks/adopt.py --packages RELEASES
python benchmarks/adopt.py --made RELEASE ... [--count N] [--seed N]

FORKS is a folder of changed copies of modeling files.  RELEASES is a folder of releases of
transformers, unpacked or as wheels: `pip download --no-deps transformers==4.37.2` gets one.  Each
fork is adopted in a process of its own.  `--packages` takes the files that `public_forks.txt`
names, from packages that pip downloads.  `--made` makes forks at random, of models of each RELEASE,
with one to five changes of the kinds that people make.  Short is a declaration that has at most the
lines that the diff adds, six for each of its places, and six.  The tables go to stdout.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from patchgen.author.adopt.releases import releases_in
from tests.population.forks import describe, forks, judge

CACHE = Path.home() / ".cache" / "patchgen" / "releases"


def main() -> int:
    """Print a row for each fork."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forks", type=Path, nargs="?")
    parser.add_argument("releases", type=Path, nargs="?")
    parser.add_argument("--parent")
    parser.add_argument("--packages", type=Path, metavar="RELEASES")
    parser.add_argument("--made", type=Path, nargs="*", metavar="RELEASE")
    parser.add_argument("--count", type=int, default=67)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.made:
        return adopt_made(options.made, options.count, options.seed)
    if options.releases is None and options.packages is None:
        parser.error("name FORKS and RELEASES, --packages RELEASES, or --made RELEASES")
    print("| fork | parent | release | regenerates | lines | added | places | verdict | CPU |")
    print("|---|---|---|---|---:|---:|---:|---|---:|")
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        paths = packaged(Path(folder)) if options.packages else sorted(options.forks.glob("*.py"))
        for path in paths:
            name, *cells = row(path, options.packages or options.releases, options.parent)
            name = path.relative_to(folder).as_posix() if options.packages else name
            print(f"| {' | '.join([name, *cells])} |", flush=True)
    return 0


def packaged(folder: Path) -> Iterator[Path]:
    """The files of `public_forks.txt`, each package being downloaded and unpacked in `folder`."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    for line in Path(__file__).with_name("public_forks.txt").read_text("utf-8").splitlines()[1:]:
        if not line.startswith(" "):
            home = folder / line.partition("==")[0]
            subprocess.run([*pip, line, "-d", str(home)], check=True)
            (archive,) = home.iterdir()
            # A wheel is a zip file; a source archive has a folder at its top.
            shutil.unpack_archive(archive, home, None if archive.suffix == ".gz" else "zip")
        else:
            (path,) = [*home.glob(line.strip()), *home.glob(f"*/{line.strip()}")]
            yield path


def adopt_made(places: list[Path], count: int, seed: int) -> int:
    """Print what is not right or long, and a row for each release; 1 where one is wrong."""
    print("| release | forks | regenerate | short | refused | wrong | CPU in the median |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    wrong = 0
    for release in (one for place in places for one in releases_in(place, CACHE)):
        results = []
        for fork in forks(release, count, seed):
            results.append(judge(fork, release))
            if not results[-1].is_short or results[-1].state != "equal":
                print(describe(results[-1]), file=sys.stderr, flush=True)
        states = Counter(result.state for result in results)
        short = sum(result.state == "equal" and result.is_short for result in results)
        wrong += states["wrong"]
        cells = [release.version, len(results), states["equal"], short]
        cells += [states["refused"] + states["not"], states["wrong"]]
        cells.append(f"{statistics.median(result.seconds for result in results):.1f} s")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return int(bool(wrong))


def row(path: Path, releases: Path, parent: str | None) -> Iterator[str]:
    """The cells of one fork."""
    command = [
        sys.executable,
        "-m",
        "patchgen",
        "adopt",
        str(path),
        "--package-root",
        str(releases),
    ]
    command += ["--output-format", "json", *(["--parent", parent] if parent else [])]
    before = _seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    spent = _seconds() - before
    yield path.stem
    try:
        data = json.loads(done.stdout)
    except ValueError:
        yield from [
            "",
            "",
            "no",
            "",
            "",
            "",
            (done.stderr.strip().splitlines() or ["failed"])[0].rpartition("/")[2],
            f"{spent:.0f} s",
        ]
        return
    yield data["parent"].rpartition(".")[2].removeprefix("modeling_")
    yield data["release"]
    yield "yes" if data["regenerates"] else "no"
    yield str(data["lines"])
    yield str(data["diff_lines"])
    yield str(data["diff_places"])
    yield data["verdict"]
    yield f"{spent:.1f} s"


def _seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    sys.exit(main())
