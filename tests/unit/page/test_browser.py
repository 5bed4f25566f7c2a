"""A page in a real browser: lines light up, keys work, the console stays empty.

The browser opens a copy of the page with a script at its end that does what a reader does and
writes down what it sees.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from patchgen.pages.render import render_index, render_page
from patchgen.pages.verdicts import judge_models, read_report
from tests.toytree import REPOSITORY
from tests.unit.page.variants import traced

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome on the PATH"),
]

# Notes errors from the first script on.
WATCH = """<script>
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
for (const name of ["error", "warn"]) console[name] = (...all) => problems.push(all.join(" "));
</script>"""
READER = """<script>{
const seen = {};
const items = (pane, name) => [...document.querySelectorAll(`#${pane} .code:not([hidden]) .${name}`)]
  .map((item) => item.textContent);
const look = () => ({
  declaration: items("declaration", "lit"), flat: items("flat", "lit"), parent: items("parent", "lit"),
  chosen: document.querySelectorAll(".chosen").length,
  status: document.getElementById("status").textContent,
});
const line = (pane, text) => [...document.querySelectorAll(`#${pane} .code li`)]
  .find((item) => item.textContent.includes(text));
const press = (key, target = document.body) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const inView = (item) => {
  const box = item.getBoundingClientRect(), frame = item.closest(".scroll").getBoundingClientRect();
  return frame.top <= box.top && box.bottom <= frame.bottom;
};

seen.opened = document.getElementById("where").textContent;
seen.folded = document.querySelectorAll(".folded").length;
const search = document.getElementById("search");
search.value = "hidden_states.SHAPE";
press("Enter", search);
seen.searched = [...document.querySelectorAll(".chosen")].map((item) => [item.textContent, item.className]);
document.querySelector(".folded[data-folded]").click();
seen.unfolded = document.querySelectorAll(".folded").length;
press("u");
seen.all = document.querySelectorAll(".folded").length;
press("Escape");
line("flat", "position_bias=position_bias").dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
seen.hover = look();
document.querySelector("#flat .code").dispatchEvent(new MouseEvent("mouseleave"));
seen.left = look();
line("flat", "self.config = config").click();
seen.click = look();
seen.hash = location.hash;
const list = document.querySelector("#flat .code");
seen.active = document.getElementById(list.getAttribute("aria-activedescendant")).textContent;
press("ArrowDown", list);
seen.down = look();
line("parent", "attention_scores = torch.matmul(q, k.transpose").click();
seen.parent = look();
line("declaration", "_supports_sdpa = True").click();
seen.declaration = look();
press("Escape");
seen.escape = look();
press("n");
seen.first = look();
press("n");
seen.second = document.getElementById("where").textContent;
press("p");
press("p");
seen.last = document.getElementById("where").textContent;
const button = [...document.querySelectorAll("#changes button")]
  .find((each) => each.textContent === "MPNetSelfAttention.forward");
button.click();
seen.change = look();
seen.inView = ["declaration", "flat", "parent"].map(
  (pane) => inView(document.querySelector(`#${pane} .code .lit`)));
press("3");
seen.focus = document.activeElement.getAttribute("aria-label");
const background = () => getComputedStyle(document.body).backgroundColor;
seen.colours = [background()];
document.getElementById("theme").click();
seen.colours.push(background());
seen.wide = document.documentElement.scrollWidth <= innerWidth;
seen.nameless = [...document.querySelectorAll("button, select, .code")]
  .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim())).length;
seen.roles = [...document.querySelectorAll(".code li")].every((item) => item.role === "option");
const result = document.createElement("script");
result.type = "application/json";
result.id = "seen";
result.textContent = JSON.stringify({ ...seen, problems });
document.body.append(result);
}</script>"""


def browse(folder: Path, html: str, size: str) -> dict[str, Any]:
    """What the script sees on the page `html` in a window of `size`; stderr has the console."""
    assert BROWSER is not None
    page = folder / "page.html"
    page.write_text(
        html.replace("<head>", f"<head>{WATCH}").replace("</body>", f"{READER}</body>"),
        encoding="utf-8",
    )
    # Without a sandbox, as in a container; the page is our own.
    done = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *(f"--window-size={size}", f"--user-data-dir={folder / 'profile'}", "--dump-dom"),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    found = re.search(r'<script type="application/json" id="seen">(.*?)</script>', done.stdout)
    assert found is not None, done.stdout[-2000:]
    page_state: dict[str, Any] = json.loads(unescape(found[1]))
    return page_state


@pytest.mark.parametrize("size", ["1600,900", "500,900"], ids=["wide", "phone"])
def test_lines_light_up_where_they_come_from(tmp_path: Path, size: str) -> None:
    name = "mpnet_sdpa_checkpoint"
    verdict = judge_models(read_report(None, REPOSITORY), name)
    page_state = browse(tmp_path, render_page(traced(name), [verdict]), size)
    assert page_state["problems"] == []

    assert re.match(r"\d+ of \d+", page_state["opened"])
    ((text, classes),) = page_state["searched"]
    assert "hidden_states.shape" in text and "folded" not in classes
    assert page_state["folded"] > page_state["unfolded"] > page_state["all"] == 0
    assert any("position_bias=position_bias" in line for line in page_state["hover"]["declaration"])
    assert any("torch.matmul(q, k.transpose" in line for line in page_state["hover"]["parent"])
    assert not page_state["left"]["flat"]

    assert page_state["click"]["chosen"] == 1
    assert page_state["click"]["declaration"] == ["            self.config = config"]
    assert "modular_mpnet_sdpa_checkpoint.py:64" in page_state["click"]["status"]
    assert page_state["hash"].startswith("#f")
    assert page_state["active"].strip() == "self.config = config"
    # The line below is the parent's.
    assert page_state["down"]["parent"] and not page_state["down"]["declaration"]

    assert any("call_the_interface" in line for line in page_state["parent"]["declaration"])
    assert any("attention_interface(" in line for line in page_state["parent"]["flat"])
    assert page_state["declaration"]["flat"] == ["    _supports_sdpa = True"]

    assert not page_state["escape"]["flat"] and not page_state["escape"]["chosen"]
    assert page_state["first"]["status"].startswith("Change 1 of ")
    count = page_state["second"].removeprefix("2 of ")
    assert page_state["last"] == f"{count} of {count}"
    assert "call_the_interface" in page_state["change"]["status"]
    assert page_state["inView"] == [True, True, True]
    assert page_state["focus"] == "Parent: transformers/models/mpnet/modeling_mpnet.py"
    assert page_state["colours"][0] != page_state["colours"][1]
    assert page_state["wide"] and page_state["roles"] and not page_state["nameless"]


def test_the_index_has_no_error(tmp_path: Path) -> None:
    assert BROWSER is not None
    page = tmp_path / "index.html"
    page.write_text(render_index([(traced("mpnet_sdpa_checkpoint"), [])]), encoding="utf-8")
    argv = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    argv += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=True)
    assert "CONSOLE" not in done.stderr
    assert "mpnet_sdpa_checkpoint.html" in done.stdout
