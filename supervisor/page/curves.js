// The curves of a run, brought up to date as its file grows, and charts of them.
import {RunFile, report} from "./net.js";
import {Table} from "./csv.js";
import {attribute, css, el, kept, keyed, number, short, shown, text} from "./dom.js";

const REPORT_CHARTS = 24;

export class Curves {
  // rows: how many are kept at most, about (csv.js)
  constructor(run, rows) {
    this.file = new RunFile(run, "metrics/progress.csv");
    this.table = new Table(rows);
    this.isClosed = false;
  }

  // Reads what is new, and calls draw after each part of it. Called meanwhile, it goes round once
  // more: the file may have grown since the answer was made.
  async refresh(draw) {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.again && !this.isClosed) {
        this.again = false;
        const {lines, anew, more} = await this.file.read();
        if (anew) this.table.clear();
        this.table.take(lines);
        this.again ||= more;
        if (anew || lines.length) draw();
      }
    } finally {
      this.busy = false;
    }
  }

  // The lines of a group's chart.
  linesOf(group) {
    return group.columns.map(([name, label]) => ({label, steps: this.table.steps, values: this.table.column(name)}));
  }

  close() {
    this.isClosed = true;
  }
}

// ---- which charts a run has ----

const RULES = [
  [/^eval\/team_return\/(.+)$/, "eval/team_return", "Evaluated return"],
  [/^rollout\/team_return\/(.+)$/, "rollout/team_return", "Return in training"],
  [/^eval\/return\/(.+)$/, "eval/return", "Evaluated return by agent"],
  [/^rollout\/return\/(.+)$/, "rollout/return", "Return in training by agent"],
  [/^train\/([^/]+)\/(.+)$/, null, null],
  [/^(eval|rollout)\/metric\/(.+)$/, null, null],
];
const WORDS = {q: "Q", kl: "KL", td: "TD"};
const pretty = key => {
  const words = key.replace(/^(time|rollout|eval|train)\//, "").split(/[/_]/)
    .map(word => WORDS[word] ?? word);
  words[0] = words[0][0]?.toUpperCase() + words[0].slice(1);
  return words.join(" ");
};

// [{key, title, columns: [[name, label], ...]}] in the order of interest.
export function groupsOf(all) {
  const groups = new Map();
  for (const name of all) {
    if (name === "env_steps") continue;
    let key = name, title = pretty(name), label = "";
    for (const [pattern, group, head] of RULES) {
      const m = pattern.exec(name);
      if (!m) continue;
      if (group) [key, title, label] = [group, head, m[1]];
      else if (name.startsWith("train/")) [key, title, label] = [`train/${m[2]}`, pretty(m[2]), m[1]];
      else [key, title, label] = [`metric/${m[2]}`, pretty(m[2]), m[1] === "eval" ? "evaluated" : "in training"];
      break;
    }
    if (name === "eval/episode_length") title = "Evaluated episode length";
    if (!groups.has(key)) groups.set(key, {key, title, columns: []});
    groups.get(key).columns.push([name, label || title]);
  }
  const rank = g => ["eval/team_return", "rollout/team_return", "eval/return", "rollout/return"].indexOf(g.key);
  return [...groups.values()].map((g, i) => [rank(g) < 0 ? 10 + i : rank(g), g])
    .sort((a, b) => a[0] - b[0]).map(([, g]) => g);
}

// What is shown unless somebody chose otherwise: in a report, which may be printed, all that tells how
// well the run learns.
export function usualGroups(groups) {
  if (report) return groups.filter(g => /^(eval|rollout)\/(team_return|episode_length)|^metric\/|^train\//.test(g.key))
    .slice(0, REPORT_CHARTS).map(g => g.key);
  const wanted = [/^eval\/team_return/, /^rollout\/team_return/, /^metric\//, /^train\/.*critic_loss$/,
                  /^train\/.*(actor|policy)_loss$/, /^train\/.*value_loss$/, /^rollout\/return/,
                  /^train\/(q_)?loss$/, /env_steps_per_second/];
  return wanted.map(w => groups.find(g => w.test(g.key))).filter(Boolean).slice(0, 6).map(g => g.key);
}

// ---- charts ----

const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a6fd1", "#7f8c3b",
                 "#b5485d", "#2aa198"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const LIGHTER = {"#0072b2": "#4aa8e0", "#009e73": "#2fc596", "#d55e00": "#f0803c", "#b5485d": "#e07a8e",
                 "#7f8c3b": "#b0bd62", "#8a6fd1": "#ab95ea"};
export const colour = i => {
  const c = PALETTE[i % PALETTE.length];
  return dark.matches ? LIGHTER[c] ?? c : c;
};
const charts = new Set();
dark.addEventListener("change", () => { for (const c of charts) c.rebuild(); });
const sizes = new ResizeObserver(entries => {
  for (const {target} of entries) target.chart?.resize();
});

// Exponential means, corrected for their beginning; gaps stay.
function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, norm = 0;
  return values.map(v => {
    if (v === null || v === undefined) return v;
    mean = weight * mean + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    return mean / norm;
  });
}

const MANY = 12; // lines: beyond, their mean and range are drawn
const has = v => v !== null && v !== undefined;

// The rows of a line that have a value.
function compact(line) {
  const rows = line.values.map((v, i) => has(v) ? i : -1).filter(i => i >= 0);
  return {steps: rows.map(i => line.steps[i]), values: rows.map(i => line.values[i])};
}

// The values of a line at some steps, between its neighbours; null outside.
function valuesAt({steps, values}, places) {
  let k = 0;
  return places.map(x => {
    while (k < steps.length && steps[k] < x) k++;
    if (steps[k] === x) return values[k];
    if (!k || k === steps.length) return null;
    return values[k - 1] + (x - steps[k - 1]) / (steps[k] - steps[k - 1]) * (values[k] - values[k - 1]);
  });
}

const range = values => [Math.min(...values), Math.max(...values)];
export function deviation(values, mean) {
  const d = values.length > 1 ? Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1)) : 0;
  return [mean - d, mean + d];
}

// Lines of the same thing as one: their mean, with a band, at all steps at which one has a value.
export function meanOf(label, lines, band) {
  const own = lines.map(compact), [steps] = uPlot.join(own.map(line => [line.steps, line.values]));
  const each = own.map(line => valuesAt(line, steps)), values = [], low = [], high = [];
  steps.forEach((_, i) => {
    const have = each.map(list => list[i]).filter(has);
    const mean = have.length ? have.reduce((a, b) => a + b) / have.length : null;
    const [least, most] = have.length ? band(have, mean) : [null, null];
    values.push(mean);
    low.push(least);
    high.push(most);
  });
  return {label, steps, values, low, high};
}

// The place of the value that is next to a place.
function nextTo(values, at) {
  for (let d = 0; d < values.length; d++)
    for (const i of [at - d, at + d]) if (has(values[i])) return i;
  return at;
}

// A chart: title, plot and legend. set([{label, steps, values, low?, high?, colour?}, ...]) draws
// lines, each at its own steps; with the same labels as before, in place.
export class Chart {
  constructor(title, key = "") {
    this.plotBox = el("div.plot");
    this.note = el("span.muted");
    this.titleNode = el("h3", title);
    this.legend = el("div.legend");
    this.node = el("figure.chart.card", {"data-chart": key},
      el("figcaption", this.titleNode, this.note), this.plotBox, this.legend);
    this.plotBox.chart = this;
    this.weight = 0;
    this.state = "";
    this.usualNote = "";
    charts.add(this);
    sizes.observe(this.plotBox);
  }

  close() {
    charts.delete(this);
    sizes.unobserve(this.plotBox);
    this.plot?.destroy();
    this.plot = null;
  }

  resize() {
    const width = Math.floor(this.plotBox.clientWidth);
    if (this.plot && width > 0 && width !== this.plot.width)
      this.plot.setSize({width, height: this.height()});
    else if (!this.plot && width > 0 && this.series) this.rebuild();
  }

  height() {
    return Math.max(150, Math.min(230, Math.round(this.plotBox.clientWidth * 0.46)));
  }

  set(lines) {
    const isMany = lines.length > MANY && !lines.some(line => line.low);
    this.series = isMany ? [meanOf(`mean and range of ${lines.length}`, lines, range)] : lines;
    const points = this.series.reduce((n, line) => n + line.values.filter(has).length, 0);
    attribute(this.node, "data-points", points);
    this.usualNote = points ? "" : "no values yet";
    text(this.note, this.usualNote);
    const state = this.series.map(s => s.label + (s.low ? "+" : "")).join("\n");
    if (!this.plot || state !== this.state) {
      this.state = state;
      this.rebuild();
    } else {
      this.plot.setData(this.data());
      this.showValues(null);
    }
  }

  setWeight(weight) {
    this.weight = weight;
    if (this.plot) this.plot.setData(this.data());
    this.showValues(null);
  }

  // The steps of all lines, with the values of each, and the bands' edges.
  data() {
    const smoothed = (line, ...lists) => [line.steps, ...lists.map(list => smooth(list, this.weight))];
    return !this.series.length ? [[]] : uPlot.join([...this.series.map(line => smoothed(line, line.values)),
      ...this.series.filter(line => line.low).map(line => smoothed(line, line.high, line.low))]);
  }

  rebuild() {
    const width = Math.floor(this.plotBox.clientWidth);
    if (!this.series || width <= 0) return;
    this.plot?.destroy();
    const n = this.series.length, banded = this.series.filter(s => s.low);
    const axis = {stroke: css("--muted"), grid: {stroke: css("--line"), width: 1}, ticks: {show: false},
                  font: "11px system-ui, sans-serif", gap: 4};
    const lines = this.series.map((s, i) => ({
      label: s.label, stroke: s.colour ?? colour(i), width: 1.6, spanGaps: true,
      points: {show: (u, index) => {
        const have = u.data[index].filter(has).length;
        return have > 0 && have < 40;
      }, size: 5, fill: css("--card")},
    }));
    const edges = banded.flatMap(() => [0, 1].map(() =>
      ({width: 0, stroke: "transparent", points: {show: false}, spanGaps: true})));
    this.plot = new uPlot({
      width, height: this.height(), legend: {show: false}, padding: [8, 18, 0, 0],
      scales: {x: {time: false}},
      cursor: {sync: {key: "steps"}, y: false, drag: {x: true, y: false},
        dataIdx: (u, i, at) => nextTo(u.data[i], at),
        points: {size: 9, width: 2, stroke: css("--card"), fill: (u, i) => u.series[i].stroke(u, i)}},
      axes: [{...axis, size: 24, values: (u, ticks) => ticks.map(short)},
             {...axis, size: 48, values: (u, ticks) => ticks.map(v => Math.abs(v) >= 1e4 ? short(v) : number(v))}],
      series: [{label: "steps"}, ...lines, ...edges],
      bands: banded.map((s, k) => ({series: [n + 1 + 2 * k, n + 2 + 2 * k],
        fill: (s.colour ?? colour(this.series.indexOf(s))) + "2e"})),
      hooks: {setCursor: [u => this.showValues(u.cursor.idx ?? null)]},
    }, this.data(), this.plotBox);
    this.buildLegend();
  }

  buildLegend() {
    this.legend.replaceChildren(...this.series.map((s, i) => {
      const node = el("button.key", {type: "button", title: "show or hide", onclick: () => {
        const off = this.plot.series[i + 1].show;
        this.plot.setSeries(i + 1, {show: !off});
        node.setAttribute("aria-pressed", String(!off));
      }}, el("i", {style: {"--key": s.colour ?? colour(i)}}), el("span", s.label), el("b"));
      node.setAttribute("aria-pressed", "true");
      return node;
    }));
    this.showValues(null);
  }

  // The values next to the cursor, at that place of all steps, or the newest ones.
  showValues(at) {
    if (!this.plot) return;
    const [steps, ...lists] = this.plot.data;
    this.series.forEach((_, i) => {
      const node = this.legend.children[i], value = lists[i][nextTo(lists[i], at ?? steps.length - 1)];
      if (node) text(node.lastChild, has(value) ? number(value) : "");
    });
    text(this.note, at !== null && steps[at] !== undefined ? `step ${short(steps[at])}` : this.usualNote);
  }
}

// Keeps the charts in `grid`, by their groups' keys, equal to those chosen.
export function syncCharts(grid, charts, groups, chosen, weight) {
  const show = groups.filter(g => chosen.has(g.key));
  for (const [key, chart] of charts) {
    if (chosen.has(key)) continue;
    chart.close();
    charts.delete(key);
  }
  for (const g of show) {
    if (charts.has(g.key)) continue;
    const chart = new Chart(g.title, g.key);
    chart.weight = weight;
    charts.set(g.key, chart);
  }
  keyed(grid, show, g => g.key, g => charts.get(g.key).node);
}

export function smoothing(onChange) {
  const select = el("select", {ariaLabel: "Smoothing", title: "Smoothing", onchange: () => {
    kept("brood-smooth", select.value);
    onChange(Number(select.value));
  }}, ...[["0", "not smoothed"], ["0.6", "smoothed"], ["0.9", "smoothed more"]].map(([value, label]) =>
    el("option", {value}, label)));
  select.value = kept("brood-smooth") ?? "0";
  if (!select.value) select.value = "0";
  return select;
}

// A menu of charts to show; keys: a Set that it changes.
export function chartMenu(onChange) {
  const box = el("div.menu-list"), node = el("details.menu", el("summary", "Charts"), box);
  const outside = event => {
    if (!node.isConnected) document.removeEventListener("click", outside);
    else if (node.open && !node.contains(event.target)) node.open = false;
  };
  document.addEventListener("click", outside);
  node.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    node.open = false;
    node.firstChild.focus();
    event.stopPropagation();
  });
  return {node, set(groups, chosen) {
    shown(node, groups.length);
    box.replaceChildren(...groups.map(g => {
      const input = el("input", {type: "checkbox", checked: chosen.has(g.key), onchange: () => {
        if (input.checked) chosen.add(g.key);
        else chosen.delete(g.key);
        onChange();
      }});
      return el("label", input, el("span", g.title), el("code", g.key));
    }));
  }};
}
