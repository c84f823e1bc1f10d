// The list of runs.
import {ask, on} from "./net.js";
import {ago, attribute, el, keyed, number, part, runUrl, setState, short, shown, soon, stateNode, svg,
        text} from "./dom.js";

export const runs = new Map(); // name -> summary; null: not read yet
export let names = [], studies = [], isComplete = false;
const FIRST_ROWS = 60;
const selected = new Set();
const filter = {text: "", state: ""};

const GROUPS = {
  live: s => s.live, done: s => s.state === "done",
  stopped: s => ["stopped", "cut off"].includes(s.state),
  failed: s => ["failed", "killed"].includes(s.state),
};

on("list", push => {
  if (push.names) {
    names = push.names;
    studies = push.studies;
    const now = new Set(names);
    for (const name of runs.keys()) if (!now.has(name)) runs.delete(name), selected.delete(name);
    for (const name of names) if (!runs.has(name)) runs.set(name, null);
  }
  for (const one of push.runs) runs.set(one.run, one);
  isComplete = push.complete;
  later();
});
on("link", is => { if (is) ask("list").catch(() => {}); });

let view = null;
const later = soon(() => view?.update());

// Sparkline of the return.
function spark() {
  const node = svg("svg", {class: "spark", viewBox: "0 0 120 28", preserveAspectRatio: "none",
                           "aria-hidden": "true"});
  node.append(svg("polyline", {"vector-effect": "non-scaling-stroke"}));
  return node;
}

function setSpark(node, values) {
  const line = node.firstChild;
  if (!values || values.length < 2) return attribute(line, "points", "");
  const low = Math.min(...values), range = Math.max(...values) - low || 1;
  attribute(line, "points", values.map((v, i) =>
    `${(2 + 116 * i / (values.length - 1)).toFixed(1)},${(25 - 22 * (v - low) / range).toFixed(1)}`).join(" "));
}

function makeRow(name) {
  const box = el("input", {type: "checkbox", ariaLabel: `Select ${name}`, onchange: () => {
    if (box.checked) selected.add(name);
    else selected.delete(name);
    view.update();
  }});
  const link = el("a.name", {href: runUrl(name)}, name);
  const bar = el("progress", {max: 1, ariaLabel: "progress"});
  const row = el("tr", {"data-run": name, onclick: event => {
    if (!event.target.closest("a, input, label")) location.hash = runUrl(name);
  }},
    el("td.pick", el("label", box)),
    el("td.run", link),
    el("td", stateNode()),
    el("td.number.steps", el("span"), bar),
    el("td.number"),
    el("td.curve", spark()),
    el("td.number.wide"),
    el("td.number.wide"));
  row.box = box;
  row.bar = bar;
  return row;
}

function setRow(row, name) {
  const s = runs.get(name), [, , state, steps, value, curve, agents, began] = row.children;
  if (row.box.checked !== selected.has(name)) row.box.checked = selected.has(name);
  attribute(row, "aria-selected", selected.has(name));
  if (!s || row.summary === s) {
    if (s && !s.live) text(began, ago(Date.parse(s.began)));
    return;
  }
  row.summary = s;
  setState(state.firstChild, s.state);
  text(steps.firstChild, short(s.env_steps));
  const p = part(s);
  shown(row.bar, p !== null);
  if (p !== null) row.bar.value = p;
  attribute(steps, "title", p === null ? null : `${Math.floor(100 * p)} %`);
  text(value, number(s.team_return_mean));
  setSpark(curve.firstChild, s.spark);
  text(agents, s.agents ? s.restarts ? `${s.agents} · ${s.restarts}↻` : s.agents : "–");
  attribute(agents, "title", `${s.agents} agents, ${s.restarts} restarts`);
  text(began, ago(Date.parse(s.began)));
  attribute(began, "title", s.began);
}

function matches(name) {
  const s = runs.get(name);
  if (filter.text && !filter.text.toLowerCase().split(/\s+/).every(word =>
    `${name} ${s?.state ?? ""}`.toLowerCase().includes(word))) return false;
  return !filter.state || (s && GROUPS[filter.state](s));
}

function compareUrl() {
  return "#/compare/" + [...selected].map(encodeURIComponent).join(",");
}

export function showList(main) {
  const search = el("input.search", {type: "search", placeholder: "Filter runs   /", value: filter.text,
    ariaLabel: "Filter runs", spellcheck: false, autocomplete: "off",
    oninput: () => { filter.text = search.value; update(); }});
  const chips = el("div.chips", {role: "group", ariaLabel: "Filter by state"});
  const compare = el("a.button.primary", {hidden: true});
  const clear = el("button.quiet", {type: "button", hidden: true, onclick: () => {
    selected.clear();
    update();
  }}, "Clear");
  const body = el("tbody");
  const table = el("table.runs", el("thead", el("tr",
    el("th.pick", el("span.hide", "select")), el("th", "run"), el("th", "state"),
    el("th.number", "steps"), el("th.number", "return"), el("th.curve", "over time"),
    el("th.number.wide", "agents"), el("th.number.wide", "began"))), body);
  const empty = el("p.empty", {hidden: true});
  const studyBox = el("section.studies", {hidden: true}, el("h2", "Studies"), el("div.cards"));
  main.replaceChildren(el("div.page",
    studyBox,
    el("div.tools", search, chips, el("span.grow"), clear, compare),
    el("div.scroll", table), empty));

  let limit = FIRST_ROWS;

  function update() {
    const show = names.filter(matches);
    keyed(body, show.slice(0, limit), name => name, makeRow, setRow);
    if (show.length > limit) { // the screen is full: the rest comes in pieces
      limit *= 2;
      later();
    }
    const counts = Object.entries(GROUPS).map(([key, is]) =>
      [key, [...runs.values()].filter(s => s && is(s)).length]);
    keyed(chips, [["", names.length], ...counts.filter(([, n]) => n)], c => c[0],
      ([key]) => el("button.chip", {type: "button", onclick: () => {
        filter.state = filter.state === key ? "" : key;
        update();
      }}, el("span", key || "all"), el("b")),
      (node, [key, n]) => {
        text(node.lastChild, n);
        attribute(node, "aria-pressed", filter.state === key);
      });
    shown(compare, selected.size > 0);
    shown(clear, selected.size > 0);
    attribute(compare, "href", compareUrl());
    text(compare, selected.size === 1 ? "Open 1 run" : `Compare ${selected.size} runs`);
    shown(empty, !show.length);
    text(empty, names.length ? "No run matches." : isComplete
      ? "There are no runs yet. `brood run configs/simple_spread.yaml` makes the first one; it appears here."
      : "Reading the runs …");
    shown(table, show.length);
    shown(studyBox, studies.length);
    keyed(studyBox.lastChild, studies, s => s, name => el("a.card.study",
      {href: `#/study/${encodeURIComponent(name)}`}, el("b", name), el("span.muted")),
      (node, name) => {
        const all = names.filter(n => n.startsWith(name + "/"));
        const live = all.filter(n => runs.get(n)?.live).length;
        text(node.lastChild, `${all.length} runs${live ? `, ${live} live` : ""}`);
      });
  }

  function move(by) {
    const rows = [...body.children];
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement?.closest("tr"));
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
    next.querySelector("a").focus();
    next.scrollIntoView({block: "nearest"});
  }

  view = {update};
  update();
  return {
    title: "brood",
    trail: [],
    keys: {
      "/": () => search.focus(),
      j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
      x: () => document.activeElement?.closest("tr")?.box?.click(),
      c: () => { if (selected.size) location.hash = compareUrl(); },
    },
    close: () => { view = null; },
  };
}
