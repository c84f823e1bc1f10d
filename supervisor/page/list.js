// The list of runs.
import {ask, on, report} from "./net.js";
import {actionButton, attribute, el, kept, keyed, menuOf, shown, soon, text} from "./dom.js";
import {COLUMNS, sorted} from "./columns.js";
import {FIELD_NAMES, parseFilter} from "./filter.js";
import {deleteRuns, resumeRuns, tagRuns} from "./actions.js";
import {readOnly} from "./app.js";

export const runs = new Map(); // name -> summary; null: not read yet
export let names = [], studies = [], isComplete = false;
let folders = []; // {folder: its label, or null of one alone; path, why: null, or it cannot be read}
const SOME_ROWS = 60, KEPT_COLUMNS = "brood-columns", KEPT_ORDER = "brood-order";
const selected = new Set();
const filter = {text: "", state: "", folder: "", is: parseFilter("")};

const GROUPS = {
  live: s => s.live, done: s => s.state === "done",
  stopped: s => ["stopped", "cut off"].includes(s.state),
  failed: s => ["failed", "killed"].includes(s.state),
};

on("list", push => {
  if (push.names) {
    names = push.names;
    studies = push.studies;
    folders = push.folders ?? [];
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

// ---- which columns are shown, and in which order ----

function keptColumns() {
  const have = (kept(KEPT_COLUMNS) ?? "").split(" ");
  const found = COLUMNS.filter(c => have.includes(c.key));
  return found.length ? found : COLUMNS.filter(c => c.usual);
}

// {by, isDown}; by: a key; "" is the order of the list as it comes, the newest first.
function keptOrder() {
  const [by, isDown] = (kept(KEPT_ORDER) ?? "").split(" ");
  return COLUMNS.some(c => c.key === by) ? {by, isDown: isDown === "down"} : {by: "", isDown: true};
}

// ---- rows ----

function makeRow(name, columns) {
  const box = el("input", {type: "checkbox", ariaLabel: `Select ${name}`, onchange: () => {
    if (box.checked) selected.add(name);
    else selected.delete(name);
    view.update();
  }});
  const row = el("tr", {"data-run": name, onclick: event => {
    if (!event.target.closest("a, input, label")) location.hash = row.querySelector("a").hash;
  }}, el("td.pick", el("label", box)), columns.map(c => el(`td${c.kind ?? ""}`, {"data-column": c.key}, c.make(name))));
  row.box = box;
  return row;
}

function setRow(row, name, columns) {
  const s = runs.get(name);
  if (row.box.checked !== selected.has(name)) row.box.checked = selected.has(name);
  attribute(row, "aria-selected", selected.has(name));
  if (!s) return;
  const isNew = row.summary !== s;
  row.summary = s;
  columns.forEach((c, i) => { if (isNew || (c.isTime && !s.live)) c.set(row.children[i + 1], s); });
}

// A heading that sorts.
function headOf(column, onSort) {
  const sorts = column.value !== null;
  return el(`th${column.kind ?? ""}`, {"data-column": column.key, scope: "col"}, sorts
    ? el("button.sort", {type: "button", onclick: () => onSort(column)}, column.title) : column.title);
}

const compareUrl = () => "#/compare/" + [...selected].map(encodeURIComponent).join(",");

export function showList(main) {
  let limit = SOME_ROWS, columns = keptColumns(), order = keptOrder();
  const search = el("input.search", {type: "search", placeholder: "Filter, as tag=paper   /", value: filter.text,
    ariaLabel: "Filter runs", title: `Words, and ${FIELD_NAMES.map(f => `${f}=`).join(", ")} with * and ?`, spellcheck: false, autocomplete: "off",
    oninput: () => { filter.text = search.value; filter.is = parseFilter(search.value); update(); }});
  const chips = el("div.chips", {role: "group", ariaLabel: "Filter by state"});
  const folderChips = el("div.chips.folders", {role: "group", ariaLabel: "Filter by folder", hidden: true}), lost = el("div");
  const compare = el("a.button.primary", {hidden: true});
  // They act on what is selected and shown.
  const act = (label, key, fn) => {
    const button = actionButton(label, () => fn(shownNames().filter(name => selected.has(name))));
    button.dataset.action = key;
    button.hidden = true;
    return button;
  };
  const acts = [act("Resume", "resume", resumeRuns), act("Tag …", "tag", tagRuns), act("Delete …", "rm", deleteRuns)];
  const clear = el("button.quiet", {type: "button", hidden: true, onclick: () => {
    selected.clear();
    update();
  }}, "Clear");
  const all = el("input", {type: "checkbox", ariaLabel: "Select all runs that are shown", onchange: () => {
    for (const name of shownNames()) if (all.checked) selected.add(name); else selected.delete(name);
    update();
  }});
  const body = el("tbody"), head = el("tr");
  const table = el("table.runs", el("thead", head), body);
  const empty = el("p.empty", {hidden: true}), more = el("p.muted.more", {hidden: true});
  // Rows are made when one gets near them: to sort or to filter a thousand takes no longer than a few.
  const nears = new IntersectionObserver(entries => {
    if (!entries.some(e => e.isIntersecting)) return;
    limit += SOME_ROWS;
    update();
    nears.unobserve(more); // and looks again: it may still be near
    nears.observe(more);
  }, {rootMargin: "1200px"});
  nears.observe(more);
  const studyBox = el("section.studies", {hidden: true}, el("h2", "Studies"), el("div.cards"));
  const chooser = menuOf("Columns", () => COLUMNS.filter(c => c.key !== "run").map(c => {
    const input = el("input", {type: "checkbox", checked: columns.includes(c), "data-column": c.key, onchange: () => {
      columns = COLUMNS.filter(one => one === c ? input.checked : columns.includes(one));
      kept(KEPT_COLUMNS, columns.map(one => one.key).join(" "));
      useColumns();
    }});
    return el("label", input, el("span", c.title));
  }));
  main.replaceChildren(el("div.page",
    lost, studyBox, folderChips,
    el("div.tools", search, chips, el("span.grow"), clear, acts, compare, chooser.node),
    el("div.scroll", table), more, empty));

  function sortBy(column) {
    const isSame = order.by === column.key;
    order = {by: column.key, isDown: isSame ? !order.isDown : Boolean(column.down)};
    kept(KEPT_ORDER, `${order.by} ${order.isDown ? "down" : "up"}`);
    limit = SOME_ROWS;
    update();
  }

  function useColumns() {
    head.replaceChildren(el("th.pick", el("label", all)), ...columns.map(c => headOf(c, sortBy)));
    table.style.setProperty("--columns", columns.map(({width: [least, share]}) => share ? `minmax(${least}px, ${share}fr)` : `${least}px`).join(" "));
    table.style.setProperty("--least", `${36 + columns.reduce((sum, c) => sum + c.width[0], 0)}px`);
    body.replaceChildren();
    body.keyedNodes = new Map();
    update();
  }

  function shownNames() {
    const found = names.filter(name => {
      const s = runs.get(name);
      return filter.is.matches(name, s) && (!filter.state || (s && GROUPS[filter.state](s))) && (!filter.folder || s?.folder === filter.folder);
    });
    const by = COLUMNS.find(c => c.key === order.by);
    return by ? sorted(found, runs, by, order.isDown) : found;
  }

  // Buttons that filter by a state or a folder. counts: [[which, how many runs it has], ...].
  function updateChips(box, by, counts) {
    keyed(box, [["", names.length], ...counts], c => c[0],
      ([key]) => el("button.chip", {type: "button", onclick: () => {
        filter[by] = filter[by] === key ? "" : key;
        update();
      }}, el("span", key || "all"), el("b")),
      (node, [key, n]) => {
        text(node.lastChild, n);
        attribute(node, "aria-pressed", filter[by] === key);
      });
  }

  function updateFolders() {
    const several = folders.filter(f => f.folder !== null), all = [...runs.values()];
    shown(folderChips, several.length);
    updateChips(folderChips, "folder", several.map(f => [f.folder, all.filter(s => s?.folder === f.folder).length]));
    keyed(lost, folders.filter(f => f.why), f => f.path, () => el("p.why"), (node, f) => text(node, f.why));
  }

  function updateTools(show) {
    const counts = Object.entries(GROUPS).map(([key, is]) => [key, [...runs.values()].filter(s => s && is(s)).length]);
    updateChips(chips, "state", counts.filter(([, n]) => n));
    shown(compare, selected.size > 0);
    shown(clear, selected.size > 0);
    for (const button of acts) shown(button, show.some(name => selected.has(name)) && !readOnly() && !report);
    attribute(compare, "href", compareUrl());
    text(compare, selected.size === 1 ? "Open 1 run" : `Compare ${selected.size} runs`);
    all.checked = show.length > 0 && show.every(name => selected.has(name));
    all.indeterminate = !all.checked && show.some(name => selected.has(name));
  }

  function update() {
    const show = shownNames();
    keyed(body, show.slice(0, limit), name => name, name => makeRow(name, columns), (row, name) => setRow(row, name, columns));
    shown(more, show.length > limit);
    text(more, `${show.length - limit} more`);
    for (const th of head.children)
      attribute(th, "aria-sort", th.dataset.column !== order.by || !order.by ? null : order.isDown ? "descending" : "ascending");
    updateFolders();
    updateTools(show);
    shown(empty, !show.length);
    text(empty, filter.is.why ? filter.is.why : names.length ? "No run matches." : isComplete
      ? folders.length > 1 ? "There are no runs in these folders." : "There are no runs yet. `brood run configs/simple_spread.yaml` makes the first one; it appears here."
      : "Reading the runs …");
    shown(table, show.length);
    shown(studyBox, studies.length);
    keyed(studyBox.lastChild, studies, s => s, name => el("a.card.study",
      {href: `#/study/${encodeURIComponent(name)}`}, el("b", name), el("span.muted")),
      (node, name) => {
        const mine = names.filter(n => n.startsWith(name + "/"));
        const live = mine.filter(n => runs.get(n)?.live).length;
        text(node.lastChild, `${mine.length} runs${live ? `, ${live} live` : ""}`);
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
  useColumns();
  return {
    title: "brood",
    trail: [],
    keys: {
      "/": () => search.focus(),
      j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
      x: () => document.activeElement?.closest("tr")?.box?.click(),
      c: () => { if (selected.size) location.hash = compareUrl(); },
    },
    close() {
      view = null;
      nears.disconnect();
    },
  };
}
