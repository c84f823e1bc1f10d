// Columns of a run's progress.csv, brought up to date as the file grows, and charts of them.
import {ask, report} from "./net.js";
import {attribute, css, el, kept, keyed, number, short, shown, text} from "./dom.js";

const REPORT_CHARTS = 24;
const AT_ONCE = 240; // columns of one request; those of a chart that follow are not drawn

// The values of a chart's columns.
class Columns {
  constructor(names) {
    this.names = names.slice(0, AT_ONCE);
    this.clear();
  }

  clear() {
    this.steps = [];
    this.values = this.names.map(() => []);
    this.next = ""; // where the file goes on
  }

  // columns: of an answer, from its first one for this chart on. True if something is new.
  take(answer, columns) {
    if (answer.restart) this.clear();
    this.next = answer.next;
    // one by one: a spread of 100,000 arguments is too many
    for (const step of answer.steps) this.steps.push(step);
    this.values.forEach((values, i) => { for (const v of columns[i]) values.push(v); });
    return answer.restart || answer.steps.length > 0;
  }
}

// The columns of all charts of one run.
export class RunColumns {
  constructor(run) {
    this.run = run;
    this.charts = new Map(); // key of a chart's group -> Columns
    this.replaced = false; // the file, perhaps by one with more columns; for the reader to reset
  }

  // Fetches those of these groups from now on, and no others.
  want(groups) {
    const keys = new Set(groups.map(g => g.key));
    for (const key of this.charts.keys()) if (!keys.has(key)) this.charts.delete(key);
    for (const g of groups)
      if (!this.charts.has(g.key)) this.charts.set(g.key, new Columns(g.columns.map(([name]) => name)));
  }

  // What one request can ask for: charts that go on at the same place of the file.
  batches() {
    const batches = [];
    for (const [key, c] of this.charts) {
      let batch = batches.find(b => b.next === c.next && b.names.length + c.names.length <= AT_ONCE);
      if (!batch) batches.push(batch = {next: c.next, names: [], charts: []});
      batch.charts.push([key, c, batch.names.length]);
      batch.names.push(...c.names);
    }
    return batches;
  }

  // Fetches what is new; the keys of charts that have changed. Called meanwhile, it goes round once
  // more: the file may have grown since the answer was made.
  async refresh() {
    const changed = new Set();
    this.again = true;
    if (this.busy) return changed;
    this.busy = true;
    try {
      while (this.again) {
        this.again = false;
        for (const {next, names, charts} of this.batches()) {
          const answer = await ask("curves", [["run", this.run], ["from", next],
                                              ...names.map(name => ["column", name])]);
          for (const [key, c, at] of charts) if (c.take(answer, answer.columns.slice(at))) changed.add(key);
          this.again ||= answer.more;
          this.replaced ||= answer.restart;
        }
      }
    } finally {
      this.busy = false;
    }
    return changed;
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

const MANY = 12; // series: beyond, their mean and range are drawn

// The mean and the range of many series, as lines with a band.
function fold(list, label) {
  const mean = [], low = [], high = [];
  for (let i = 0; i < list[0].values.length; i++) {
    let n = 0, sum = 0, least = Infinity, most = -Infinity;
    for (const {values: {[i]: v}} of list) {
      if (v === null || v === undefined) continue;
      n++;
      sum += v;
      if (v < least) least = v;
      if (v > most) most = v;
    }
    mean.push(n ? sum / n : null);
    low.push(n ? least : null);
    high.push(n ? most : null);
  }
  return [{label, values: mean, low, high}];
}

// A chart: title, plot and legend. set(steps, [{label, values, low?, high?}, ...]) draws; with
// the same labels as before, in place.
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
    this.limit = ""; // what is not drawn
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
    else if (!this.plot && width > 0 && this.steps) this.rebuild();
  }

  height() {
    return Math.max(150, Math.min(230, Math.round(this.plotBox.clientWidth * 0.46)));
  }

  set(steps, series) {
    const many = series.length > MANY && !series.some(s => s.low);
    this.steps = steps;
    this.series = many && steps.length
      ? fold(series, `mean and range of ${series.length}`) : series;
    const has = this.series.some(s => s.values.some(v => v !== null && v !== undefined));
    attribute(this.node, "data-points", this.series.reduce(
      (n, s) => n + s.values.reduce((k, v) => k + (v !== null && v !== undefined ? 1 : 0), 0), 0));
    this.usualNote = has ? this.limit : "no values yet";
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

  data() {
    const lines = this.series.map(s => smooth(s.values, this.weight));
    const bands = this.series.filter(s => s.low).flatMap(s =>
      [smooth(s.high, this.weight), smooth(s.low, this.weight)]);
    return [this.steps, ...lines, ...bands];
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
        const have = u.data[index].reduce((k, v) => k + (v !== null && v !== undefined ? 1 : 0), 0);
        return have > 0 && have < 40;
      }, size: 5, fill: css("--card")},
    }));
    const edges = banded.flatMap(() => [0, 1].map(() =>
      ({width: 0, stroke: "transparent", points: {show: false}, spanGaps: true})));
    this.plot = new uPlot({
      width, height: this.height(), legend: {show: false}, padding: [8, 18, 0, 0],
      scales: {x: {time: false}},
      cursor: {sync: {key: "steps"}, y: false, points: {size: 6}, drag: {x: true, y: false}},
      axes: [{...axis, size: 24, values: (u, ticks) => ticks.map(short)},
             {...axis, size: 48, values: (u, ticks) => ticks.map(v => Math.abs(v) >= 1e4 ? short(v) : number(v))}],
      series: [{label: "steps"}, ...lines, ...edges],
      bands: banded.map((s, k) => ({series: [n + 1 + 2 * k, n + 2 + 2 * k],
        fill: (s.colour ?? colour(this.series.indexOf(s))) + "2e"})),
      hooks: {setCursor: [u => this.showValues(u.cursor.idx)]},
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

  // The values under the cursor, or the newest ones.
  showValues(at) {
    if (!this.plot) return;
    this.series.forEach((s, i) => {
      const values = this.plot.data[i + 1];
      let k = at ?? values.length - 1;
      while (k >= 0 && (values[k] === null || values[k] === undefined)) k--;
      const node = this.legend.children[i];
      if (node) text(node.lastChild, k >= 0 ? number(values[k]) : "");
    });
    if (at !== null && at !== undefined && this.steps[at] !== undefined)
      text(this.note, `step ${short(this.steps[at])}`);
    else text(this.note, this.usualNote);
  }
}

// Keeps the charts in `grid`, by their groups' keys, equal to those chosen; returns their groups.
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
    chart.limit = g.columns.length > AT_ONCE ? `first ${AT_ONCE} of ${g.columns.length}` : "";
    charts.set(g.key, chart);
  }
  keyed(grid, show, g => g.key, g => charts.get(g.key).node);
  return show;
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
