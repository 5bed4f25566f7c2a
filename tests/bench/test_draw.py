"""Charts: what is drawn, where it stands, and what is refused."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from benchmarks.charts.bars import Bar, bars
from benchmarks.charts.frame import decades, format_number, ticks
from benchmarks.charts.lines import Line, lines

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str, tag: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [one for one in root.iter(SVG + tag) if kind in one.get("class", "").split()]


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        pytest.param(0, 10, (0, 2, 4, 6, 8, 10), id="ends at the highest"),
        pytest.param(0, 11, (0, 2, 4, 6, 8, 10, 12), id="or above it"),
        pytest.param(
            2.31, 2.42, (2.3, 2.32, 2.34, 2.36, 2.38, 2.4, 2.42), id="need not begin at nothing"
        ),
        pytest.param(3, 3, (3, 3.5), id="one value still has a width"),
        pytest.param(0, 0, (0, 0.2), id="so has nothing"),
    ],
)
def test_ticks(low, high, marks):
    assert ticks(low, high)[: len(marks)] == pytest.approx(marks)
    assert ticks(low, high)[0] <= low and ticks(low, high)[-1] >= high - 1e-9


def test_decades():
    assert decades(0.02, 1.0) == pytest.approx((0.02, 0.05, 0.1, 0.2, 0.5, 1))
    assert decades(0.03, 6) == pytest.approx((0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
    assert decades(1, 1) == pytest.approx((1, 2))


@pytest.mark.parametrize(
    ("value", "text"), [(0.05, "0.05"), (320, "320"), (12500, "12.5k"), (3.2e6, "3.2M")]
)
def test_short(value, text):
    assert format_number(value) == text


def test_bars_are_as_long_as_their_values():
    svg = bars("speed", [Bar("one", (10,)), Bar("two", (5,))], across="unit")
    first, second = (float(one.get("width", "0")) for one in drawn(svg, "rect", "fill"))
    assert first == pytest.approx(2 * second, abs=0.2)


def test_parts_lie_end_to_end_in_the_colours_of_the_legend():
    svg = bars(
        "memory", [Bar("step", (3, 2, 1))], names=("weights", "gradients", "states"), across="unit"
    )
    legend, parts = drawn(svg, "rect", "fill")[:3], drawn(svg, "rect", "fill")[3:]
    assert [one.get("class") for one in legend] == [one.get("class") for one in parts]
    for before, after in zip(parts, parts[1:], strict=False):
        assert float(before.get("x")) + float(before.get("width")) == pytest.approx(
            float(after.get("x")), abs=0.2
        )


def test_a_logarithmic_bar_grows_by_the_same_for_the_same_factor():
    svg = bars(
        "y", [Bar(str(value), (value,)) for value in (0.1, 1, 10)], logarithmic=True, across="unit"
    )
    one, two, three = (float(bar.get("width", "0")) for bar in drawn(svg, "rect", "fill"))
    assert two - one == pytest.approx(three - two, abs=0.2)


def test_spread_and_target_stand_where_they_are():
    svg = bars(
        "speed", [Bar("one", (10,), spread=(8, 12), target=12), Bar("two", (12,))], across="unit"
    )
    right = max(float(one.get("x2", "0")) for one in drawn(svg, "line", "spread"))
    target = float(drawn(svg, "line", "target")[0].get("x1", "0"))
    bar = drawn(svg, "rect", "fill")[1]
    assert (
        right
        == pytest.approx(target)
        == pytest.approx(float(bar.get("x")) + float(bar.get("width")), abs=0.2)
    )


@pytest.mark.parametrize(("target", "moved"), [(10.5, True), (5, False), (100, False)])
def test_no_target_stands_in_a_figure(target, moved):
    svg = bars(
        "speed", [Bar("one", (10,), caption="10", target=target), Bar("two", (100,))], across="unit"
    )
    line = float(drawn(svg, "line", "target")[0].get("x1", "0"))
    bar, figure = drawn(svg, "rect", "fill")[0], drawn(svg, "text", "value")[0]
    behind = line if moved else float(bar.get("x", "0")) + float(bar.get("width", "0"))
    assert float(figure.get("x", "0")) == pytest.approx(behind + 6, abs=0.2)


def test_text_is_escaped():
    svg = bars("a < b & c", [Bar("<x>", (1,))], across="unit")
    assert "a < b & c" in [one.text for one in ElementTree.fromstring(svg).iter(SVG + "text")]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_bars_refuse_what_they_cannot_show(value):
    with pytest.raises(ValueError, match="cannot show"):
        bars("x", [Bar("one", (value,))], across="unit")


def test_a_logarithmic_axis_refuses_nothing_and_sums():
    for parts in ((0.0,), (1.0, 2.0)):
        with pytest.raises(ValueError, match="logarithmic"):
            bars("x", [Bar("one", parts)], logarithmic=True, across="unit")


def test_lines_join_their_points_and_break_at_no_number():
    svg = lines(
        "loss",
        [Line("a", ((0, 2), (1, 1))), Line("b", ((0, 2), (1, math.nan), (2, 1)))],
        across="s",
        up="l",
    )
    joined, broken = (one.get("d", "") for one in drawn(svg, "path", "line"))
    assert re.fullmatch(r"M[\d.]+ [\d.]+L[\d.]+ [\d.]+", joined)
    assert re.fullmatch(r"M[\d.]+ [\d.]+M[\d.]+ [\d.]+", broken)
    (_, high), (_, low) = (
        map(float, pair.split()) for pair in re.findall(r"[\d.]+ [\d.]+", joined)
    )
    assert high < low, "y grows downwards, a higher loss stands higher"


def test_lines_refuse_nothing_at_all():
    with pytest.raises(ValueError, match="no point"):
        lines("loss", [Line("a", ((0, math.nan),))], across="step", up="loss")


def test_dark_ground_has_a_colour_for_all_that_light_ground_has():
    svg = bars("x", [Bar("one", (1,))], across="unit")
    light, dark = svg.split("@media(prefers-color-scheme:dark)")
    series = set(re.findall(r"\.fill\.s\d", light))
    assert series and series == set(re.findall(r"\.fill\.s\d", dark.split("</style>")[0]))


def test_axes_have_titles():
    svg = bars("a", [Bar("one", (1,))], across="GB")
    assert "GB" in [one.text for one in ElementTree.fromstring(svg).iter(SVG + "text")]
    svg = lines("a", [Line("one", ((0, 1), (1, 2)))], across="step", up="loss")
    assert {"step", "loss"} <= {one.text for one in ElementTree.fromstring(svg).iter(SVG + "text")}


def test_dots_are_drawn_separately():
    svg = lines("a", [Line("one", ((0, 1), (1, math.nan), (2, 3)), dots=True)], across="x", up="y")
    assert len(drawn(svg, "circle", "fill")) == 2
