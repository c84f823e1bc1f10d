// The columns of the list of runs: what each shows of a run's summary, and what it sorts by.
import {ago, attribute, el, keyed, name, number, part, runUrl, setState, short, shown, stateNode, svg, text} from "./dom.js";

// A number whose decimal point stands below that of the others in its column; small ones keep their digits.
function setDecimal(node, value) {
  const size = Math.abs(value), said = size >= 0.01 && size < 1e5 ? value.toFixed(2) : number(value);
  const [, whole, fraction] = /^([^.]*)(.*)$/.exec(said);
  if (!node.firstChild) node.append(el("span"), el("span.fraction"));
  text(node.firstChild, whole);
  text(node.lastChild, fraction);
}

const valuesOf = (s, kind) => (s.returns ?? []).filter(r => r[kind] !== null && r[kind] !== undefined);
const meanOf = values => values.length ? values.reduce((sum, v) => sum + v) / values.length : null;

// A return of each team: they may play against each other.
function setReturns(node, s, kind) {
  const teams = valuesOf(s, kind);
  keyed(node, teams, r => r.team, () => el("div.team", el("span.muted"), el("span.decimal")), (line, r) => {
    text(line.firstChild, teams.length > 1 ? r.team : "");
    attribute(line, "title", teams.length > 1 ? `${r.team}: ${r[kind]}` : r[kind]);
    setDecimal(line.lastChild, r[kind]);
  });
}

// Sparkline of the return.
function spark() {
  const node = svg("svg", {class: "spark", viewBox: "0 0 120 28", preserveAspectRatio: "none", "aria-hidden": "true"});
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

function setSteps(cell, s) {
  const p = part(s);
  text(cell.firstChild, short(s.env_steps));
  shown(cell.lastChild, p !== null);
  if (p !== null) cell.lastChild.value = p;
  attribute(cell, "title", p === null ? null : `${Math.floor(100 * p)} %`);
}

const words = list => (list ?? []).join(", ");
const plain = (key, title, width, of, more = {}) => ({key, title, width, value: of, make: () => [], set: (cell, s) => {
  if (cell.textContent !== String(of(s) ?? "")) cell.replaceChildren(...name(of(s)));
  attribute(cell, "title", of(s));
}, ...more});

// key, title, width: of a grid's column; kind: a class of its cells; usual: it is shown unless somebody
// chose otherwise; make(run): what is in a cell; set(cell, summary): brings it up to date;
// value(summary): sorts, null last; down: the largest comes first when one begins to sort by it.
export const COLUMNS = [
  {key: "run", title: "run", width: [150, 3], kind: ".run", usual: true, value: s => s.run,
    make: run => [el("a.name", {href: runUrl(run)}, name(run))], set() {}},
  {key: "state", title: "state", width: [114, 0.5], usual: true, value: s => s.state,
    make: () => [stateNode()], set(cell, s) {
      setState(cell.firstChild, s.state);
      attribute(cell, "title", s.why);
    }},
  {key: "steps", title: "steps", width: [70, 0.6], kind: ".number.steps", usual: true, down: true, value: s => s.env_steps,
    make: () => [el("span"), el("progress", {max: 1, ariaLabel: "progress"})], set: setSteps},
  {key: "return", title: "return", width: [118, 1.3], kind: ".number.returns-of", usual: true, down: true,
    value: s => meanOf(valuesOf(s, "trained").map(r => r.trained)), make: () => [], set: (cell, s) => setReturns(cell, s, "trained")},
  {key: "evaluated", title: "evaluated", width: [118, 1.3], kind: ".number.returns-of", usual: true, down: true,
    value: s => meanOf(valuesOf(s, "evaluated").map(r => r.evaluated)), make: () => [], set: (cell, s) => setReturns(cell, s, "evaluated")},
  {key: "curve", title: "over time", width: [132, 0], kind: ".curve", usual: true, value: null,
    make: () => [spark()], set: (cell, s) => setSpark(cell.firstChild, s.spark)},
  plain("environment", "environment", [112, 1.2], s => s.environment, {kind: ".wraps", usual: true}),
  plain("algorithm", "algorithm", [82, 0.8], s => s.algorithms, {kind: ".wraps", usual: true}),
  plain("seed", "seed", [54, 0.3], s => s.seed, {kind: ".number", usual: true}),
  plain("tags", "tags", [84, 1], s => words(s.tags) || null, {kind: ".wraps", usual: true}),
  plain("note", "note", [120, 2], s => s.note, {kind: ".wraps"}),
  {key: "speed", title: "steps / s", width: [84, 0.8], kind: ".number", down: true, value: s => s.steps_per_second ?? null,
    make: () => [], set: (cell, s) => text(cell, short(s.steps_per_second ?? null))},
  {key: "agents", title: "agents", width: [72, 0.6], kind: ".number", down: true, value: s => s.agents || null,
    make: () => [], set(cell, s) {
      text(cell, s.agents ? s.restarts ? `${s.agents} · ${s.restarts}↻` : s.agents : "–");
      attribute(cell, "title", `${s.agents} agents, ${s.restarts ?? 0} restarts`);
    }},
  plain("study", "study", [90, 1], s => s.study),
  plain("folder", "folder", [84, 1], s => s.folder),
  {key: "began", title: "began", width: [90, 0.7], kind: ".number", usual: true, down: true, isTime: true,
    value: s => s.began, make: () => [], set(cell, s) {
      text(cell, ago(Date.parse(s.began)));
      attribute(cell, "title", s.began);
    }},
];

const collator = new Intl.Collator("en", {numeric: true});
const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));

// The names in the order of a column. summaries: a Map; a run that has not been read yet, or has no value,
// comes last; equal ones stay as they are.
export function sorted(names, summaries, column, isDown) {
  const keys = new Map(names.map(run => {
    const s = summaries.get(run);
    return [run, (column.key === "run" ? run : s && column.value(s)) ?? null];
  }));
  return [...names].sort((x, y) => {
    const a = keys.get(x), b = keys.get(y);
    if (a === null || b === null) return (a === null) - (b === null);
    return isDown ? compare(b, a) : compare(a, b);
  });
}
