// A reference is [file, first line, last line]; lines count from 1.
const data = JSON.parse(document.getElementById("data").textContent);
const lists = [...document.querySelectorAll(".code")];
const status = document.getElementById("status");
const where = document.getElementById("where");
const state = { file: -1, line: 0, change: -1, lit: [] };

const KEPT = 5, SHORT = 12; // lines shown around a change; shorter stretches are not folded
const search = document.getElementById("search");

const lineOf = (file, line) => lists[file].children[line - 1];
const isFlat = (file) => file in data.outputs;
const holds = ([file, first, last], [other, line]) => file === other && first <= line && line <= last;
const pathOf = (file) => lists[file].getAttribute("aria-label").split(": ")[1];

function runOf(file, line) {
  return data.outputs[file].find(([first, last]) => first <= line && line <= last);
}

/** What the line of an output was made from. */
function sourcesOf(file, line) {
  const [first, , , sources, steps] = runOf(file, line);
  const offset = steps ? line - first : 0;
  return sources.map(([other, start, stop]) => [other, start + offset, stop + offset]);
}

/** The lines of outputs that were made from a line of the declaration or of a parent. */
function madeFrom(file, line) {
  const found = [];
  for (const [output, runs] of Object.entries(data.outputs)) {
    for (const [first, last, , sources, steps] of runs) {
      for (const [other, start, stop] of sources) {
        if (other !== file) continue;
        const offset = line - start;
        if (steps && 0 <= offset && offset <= last - first) {
          found.push([Number(output), first + offset, first + offset]);
        } else if (!steps && start <= line && line <= stop) {
          found.push([Number(output), first, last]);
        }
      }
    }
  }
  return found;
}

/** Everything that belongs to a line, in all panes. */
function relatedTo(file, line) {
  if (isFlat(file)) return sourcesOf(file, line);
  const found = madeFrom(file, line);
  for (const [output, first] of [...found]) found.push(...sourcesOf(output, first));
  for (const edit of data.edits) {
    const places = [edit.declared, ...edit.found];
    if (!places.some((place) => holds(place, [file, line]))) continue;
    found.push(...places);
    const changes = data.changes.filter((change) => change.edits.includes(edit.name));
    found.push(...changes.filter((change) => change.sources.some((s) => holds(s, [file, line]))).map((c) => c.lines));
  }
  // A line of the parent that was only removed belongs to the change that removed it.
  if (!found.length) {
    const change = data.changes.find((each) => each.sources.some((s) => holds(s, [file, line])));
    if (change) found.push(change.lines, ...change.sources);
  }
  return found;
}

function clear() {
  for (const item of state.lit) item.classList.remove("lit", "chosen");
  state.lit = [];
}

function light(places, name) {
  for (const [file, first, last] of places) {
    for (let line = first; line <= last; line++) {
      const item = lineOf(file, line);
      if (!item) continue;
      item.classList.add(name);
      state.lit.push(item);
    }
  }
}

function say(places) {
  const texts = places.filter(([, first, last]) => first <= last).map(
    ([file, first, last]) => `${pathOf(file)}:${first}${last > first ? `-${last}` : ""}`);
  return [...new Set(texts)].slice(0, 6).join(", ");
}

function describe(file, line, related) {
  const here = `${pathOf(file)}:${line}`;
  if (!isFlat(file)) {
    return related.length ? `${here} belongs to ${say(related)}` : `${here} is not in the flat file`;
  }
  const kind = data.kinds[runOf(file, line)[2]];
  const words = {
    parent: "is the parent's:", declaration: "is declared:", rewritten: "is made from",
    made: "is written by patchgen", blank: "is blank",
  };
  return `${here} ${words[kind]} ${say(related)}`.trim();
}

/** Show `file` in its pane. */
function show(file) {
  const list = lists[file];
  if (!list.hidden) return;
  for (const other of list.parentElement.children) other.hidden = other !== list;
  const select = list.closest(".pane").querySelector("select");
  if (select) select.value = String(file);
}

/** Fold what lies far from every change; the first line of a stretch says how much it is. */
function fold(file) {
  const items = [...lists[file].children];
  const marked = items.map((item) => item.className !== "");
  if (!marked.includes(true)) return;
  const near = (at) => marked.slice(Math.max(0, at - KEPT), at + KEPT + 1).includes(true);
  for (let at = 0; at < items.length; at++) {
    let end = at;
    while (end < items.length && !near(end)) end++;
    if (end - at > SHORT) {
      for (const item of items.slice(at, end)) item.classList.add("folded");
      items[at].dataset.folded = `${end - at} unchanged lines`;
    }
    at = Math.max(at, end);
  }
}

/** Show the stretch that `item` is in. */
function unfold(item) {
  let first = item;
  while (first && first.classList.contains("folded") && !first.dataset.folded) first = first.previousElementSibling;
  for (let each = first; each && each.classList.contains("folded"); each = each.nextElementSibling) {
    if (each !== first && each.dataset.folded) break;
    each.classList.remove("folded");
  }
  if (first) delete first.dataset.folded;
}

function unfoldAll() {
  for (const item of document.querySelectorAll(".folded")) item.classList.remove("folded");
}

/** Choose the next line that has the text of the search. */
function find() {
  const text = search.value.toLowerCase();
  const flat = Number(Object.keys(data.outputs)[0]);
  const order = [...lists.keys()].sort((a, b) => isFlat(b) - isFlat(a) || a - b);
  const start = order.indexOf(state.file < 0 ? flat : state.file);
  for (let turn = 0; text && turn <= order.length; turn++) {
    const file = order[(start + turn) % order.length];
    const items = [...lists[file].children];
    const from = turn === 0 && state.file === file ? state.line : 0;
    const at = items.findIndex((item, number) => number >= from && item.textContent.toLowerCase().includes(text));
    if (at >= 0) return choose(file, at + 1);
  }
  if (text) status.textContent = `No line has ${search.value}`;
}

function reveal(file, line) {
  show(file);
  const item = lineOf(file, Math.max(1, Math.min(line, lists[file].children.length)));
  unfold(item);
  const pane = item.closest(".scroll");
  const box = item.getBoundingClientRect(), frame = pane.getBoundingClientRect();
  if (box.top < frame.top + 20 || box.bottom > frame.bottom - 20) {
    pane.scrollTop += box.top - frame.top - frame.height / 3;
  }
}

/** Bring the first of `places` of each pane into view. */
function revealAll(places) {
  const seen = new Set();
  for (const [file, first, last] of places) {
    const pane = lists[file].closest(".pane").id;
    if (first > last || seen.has(pane)) continue;
    seen.add(pane);
    reveal(file, first);
  }
}

function paint() {
  clear();
  if (state.change >= 0) {
    const change = data.changes[state.change];
    light(change.sources, "lit");
    light([change.lines], "lit");
  }
  if (state.file < 0) return;
  light(relatedTo(state.file, state.line), "lit");
  light([[state.file, state.line, state.line]], "chosen");
}

function choose(file, line) {
  if (!lineOf(file, line)) return;
  for (const item of document.querySelectorAll("[aria-selected=true]")) item.setAttribute("aria-selected", "false");
  Object.assign(state, { file, line, change: -1 });
  paint();
  const item = lineOf(file, line);
  item.id = `l${file}-${line}`;
  item.setAttribute("aria-selected", "true");
  lists[file].setAttribute("aria-activedescendant", item.id);
  const related = relatedTo(file, line);
  reveal(file, line);
  revealAll(related.filter(([other]) => lists[other].closest(".pane") !== lists[file].closest(".pane")));
  status.textContent = describe(file, line, related);
  history.replaceState(null, "", `#f${file}-${line}`);
}

/** The sources of the nearest line above `place` that is the parent's. */
function lineAbove([file, first]) {
  const isParents = ([, last, kind]) => last < first && data.kinds[kind] === "parent";
  const run = data.outputs[file].filter(isParents).pop();
  return run ? sourcesOf(file, run[1]) : [];
}

function goTo(number) {
  if (!data.changes.length) return;
  const count = data.changes.length;
  Object.assign(state, { file: -1, change: (number + count) % count });
  const change = data.changes[state.change];
  paint();
  revealAll([change.lines, ...change.sources]);
  // Where lines were only removed or only added, the place is shown all the same.
  if (change.lines[1] > change.lines[2]) reveal(change.lines[0], change.lines[1]);
  const inParent = ([file]) => lists[file].closest(".pane").id === "parent";
  if (!change.sources.some(inParent)) revealAll(lineAbove(change.lines).filter(inParent));
  where.textContent = `${state.change + 1} of ${count}`;
  const edits = change.edits.length ? `, by the edit ${change.edits.join(", ")}` : "";
  status.textContent = `Change ${state.change + 1} of ${count}: ${change.title}${edits}: ${say([change.lines, ...change.sources])}`;
  history.replaceState(null, "", `#change-${state.change + 1}`);
}

function placeOf(event) {
  const item = event.target.closest(".code > li");
  if (!item) return null;
  const list = item.parentElement;
  return [lists.indexOf(list), [...list.children].indexOf(item) + 1];
}

for (const [file, list] of lists.entries()) {
  // A line that is folded counts too.
  for (const [number, item] of [...list.children].entries()) item.value = number + 1;
  fold(file);
  list.setAttribute("role", "listbox");
  list.tabIndex = 0;
  for (const item of list.children) item.setAttribute("role", "option");
  list.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place && lineOf(...place).dataset.folded) unfold(lineOf(...place));
    // Text that is being selected is to be copied.
    else if (place && !String(getSelection())) choose(...place);
  });
  list.addEventListener("mouseover", (event) => {
    const place = placeOf(event);
    if (!place) return;
    paint();
    const related = relatedTo(...place);
    light(related, "lit");
    light([[place[0], place[1], place[1]]], "lit");
    status.textContent = describe(...place, related);
  });
  list.addEventListener("mouseleave", paint);
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const from = state.file === file ? state.line : 0;
    choose(file, Math.max(1, Math.min(list.children.length, from + steps[event.key])));
  });
}

for (const select of document.querySelectorAll(".title select")) {
  select.addEventListener("change", () => show(Number(select.value)));
}
for (const button of document.querySelectorAll("[data-change]")) {
  button.addEventListener("click", () => goTo(Number(button.dataset.change)));
}
for (const button of document.querySelectorAll("[data-edit]")) {
  button.addEventListener("click", () => {
    const edit = data.edits[Number(button.dataset.edit)];
    choose(edit.declared[0], edit.declared[1]);
  });
}
document.getElementById("next").addEventListener("click", () => goTo(state.change + 1));
document.getElementById("previous").addEventListener("click", () => goTo(Math.max(state.change, 0) - 1));

const keys = {
  n: () => goTo(state.change + 1),
  p: () => goTo(Math.max(state.change, 0) - 1),
  t: themes.toggle,
  u: unfoldAll,
  w: () => document.body.classList.toggle("wrap"),
  "/": () => search.focus(),
  Escape: () => { Object.assign(state, { file: -1, change: -1 }); paint(); status.textContent = ""; },
};
for (const [number, pane] of [...document.querySelectorAll(".pane")].entries()) {
  keys[number + 1] = () => pane.querySelector(".code:not([hidden])").focus();
}
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("select, input")) return;
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") find();
  if (event.key === "Escape") search.blur();
});
document.getElementById("unfold").addEventListener("click", unfoldAll);
document.getElementById("wrap").addEventListener("click", keys.w);
if (matchMedia("(max-width: 800px)").matches) keys.w();

const [, file, line] = location.hash.match(/^#f(\d+)-(\d+)$/) || [];
const [, change] = location.hash.match(/^#change-(\d+)$/) || [];
if (file && lists[file]) choose(Number(file), Number(line));
else if (change) goTo(Number(change) - 1);
// Imports come first in a file, and tell least.
else goTo(Math.max(0, data.changes.findIndex((each) => each.title !== "module")));
