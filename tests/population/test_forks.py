"""Made-up forks come out again, in about the length of their diff, and none is called equal wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.author.adopt.releases import Release, releases_in
from patchgen.project.places import user_folder
from patchgen.syntax.locate import make_environment
from tests.population.forks import Result, describe, forks, judge

pytest.importorskip("transformers")


def releases() -> list[Release]:
    """The installed release, and those that were downloaded before."""
    path = make_environment(Path.cwd(), None).path("transformers")
    assert path is not None
    cache = user_folder() / "releases"
    known = releases_in(cache, cache) if cache.is_dir() else ()
    return [*releases_in(path.parent.parent, cache), *known]


def judged(release: Release, count: int) -> list[Result]:
    results = [judge(fork, release) for fork in forks(release, count, seed=11)]
    wrong = [describe(result) for result in results if result.state == "wrong"]
    assert not wrong, "\n".join(wrong)
    return results


def test_a_sample_of_the_installed_release() -> None:
    results = judged(releases()[0], 5)
    assert sum(result.state == "equal" for result in results) >= 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
def test_forks_of_every_release_at_hand(release: Release) -> None:
    results = judged(release, 67)
    equal = [result for result in results if result.state == "equal"]
    others = [describe(result) for result in results if result.state != "equal"]
    assert len(equal) >= 0.95 * len(results), "\n".join(others)
    assert sum(result.is_short for result in equal) >= 0.8 * len(equal)
