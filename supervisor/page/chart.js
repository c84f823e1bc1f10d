// A chart of lines, the charts of a view side by side, and the menu of them.
import {attribute, css, duration, el, keyed, menuOf, number, short, shown, text} from "./dom.js";
import {MANY, colour, dark, has, meanOf, nextTo, range, robustRange, smooth} from "./lines.js";
import {drawMarks, marksLayer} from "./marks.js";
import {saveCsv, savePng} from "./save.js";

const USUAL = {weight: 0, log: false, isTime: false, all: true, marks: false, zoom: null, large: ""};
const charts = new Set();
dark.addEventListener("change", () => { for (const c of charts) c.rebuild(); });
const sizes = new ResizeObserver(entries => {
  for (const {target} of entries) target.chart?.resize();
});

// Kinds of a vertical axis, as uPlot numbers them; ASINH: logarithmic but for a small range around 0, of
// values that are not all positive.
const LINEAR = 1, LOG = 3, ASINH = 4;

// A chart: title, plot and legend. set([{label, steps, values, low?, high?, colour?}, ...]) draws
// lines, each at its own steps, or seconds; with the same labels as before, in place.
export class Chart {
  // look: how it is drawn (look.js); tools: of lookTools, to which it says where one has zoomed; along:
  // what the horizontal axis has, where it is not steps.
  constructor(title, key = "", look = USUAL, tools = null, along = "") {
    Object.assign(this, {title, key, look, tools, along, marks: [], state: "", beyond: 0});
    this.plotBox = el("div.plot");
    this.note = el("span.muted");
    this.titleNode = el("h3", title);
    this.legend = el("div.legend");
    this.enlarge = el("button.icon", {type: "button", title: "Enlarge", ariaLabel: `Enlarge ${title}`, hidden: !tools, onclick: () => {
      look.large = look.large === key ? "" : key;
      tools.changed();
    }}, "⤢");
    const as = (name, fn) => el("button.quiet", {type: "button", "data-save": name, onclick: fn}, `Save as ${name}`);
    const menu = menuOf("⋯", () => [as("CSV", () => this.saveCsv()), as("PNG", () => this.savePng())]);
    menu.node.firstChild.ariaLabel = `Save ${title}`;
    this.node = el("figure.chart.card", {"data-chart": key},
      el("figcaption", this.titleNode, this.note, this.enlarge, menu.node), this.plotBox, this.legend);
    this.plotBox.chart = this;
    this.layer = marksLayer();
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
    if (this.plot && width > 0 && (width !== this.plot.width || this.height() !== this.plot.height))
      this.plot.setSize({width, height: this.height()});
    else if (!this.plot && width > 0 && this.series) this.rebuild();
  }

  get isLarge() {
    return this.key !== "" && this.look.large === this.key;
  }

  height() {
    const width = this.plotBox.clientWidth;
    return this.isLarge ? Math.max(230, Math.min(520, Math.round(width * 0.5))) : Math.max(150, Math.min(230, Math.round(width * 0.46)));
  }

  set(lines) {
    const isMany = lines.length > MANY && !lines.some(line => line.low);
    this.series = isMany ? [meanOf(`mean and range of ${lines.length}`, lines, range)] : lines;
    const points = this.series.reduce((n, line) => n + line.values.filter(has).length, 0);
    attribute(this.node, "data-points", points);
    shown(this.node, points);
    this.draw();
  }

  // The look has changed, or the lines. What cannot change in a plot makes a new one.
  draw() {
    if (!this.series) return;
    this.node.classList.toggle("large", this.isLarge);
    attribute(this.enlarge, "aria-pressed", this.isLarge);
    this.kind = !this.look.log ? LINEAR : this.series.every(line => [line.values, line.low ?? []].every(list => list.every(v => !has(v) || v > 0))) ? LOG : ASINH;
    const state = [this.kind, this.look.isTime, ...this.series.map(s => s.label + (s.low ? "+" : ""))].join("\n");
    if (!this.plot || state !== this.state) {
      this.state = state;
      this.rebuild();
    } else {
      this.resize();
      this.plot.setData(this.data());
      this.showValues(null);
    }
  }

  // [{step, kind, text, place}, ...]: place: on the horizontal axis.
  setMarks(marks) {
    this.marks = marks;
    this.placeMarks();
  }

  placeMarks() {
    if (!this.plot) return;
    const {min, max} = this.plot.scales.x;
    drawMarks(this.layer, this.look.marks ? this.marks.filter(m => m.place !== null && m.place >= min && m.place <= max)
      .map(m => ({...m, left: this.plot.valToPos(m.place, "x")})) : []);
  }

  // The steps of all lines, with the values of each, and the bands' edges.
  data() {
    const smoothed = (line, ...lists) => [line.steps, ...lists.map(list => smooth(list, this.look.weight))];
    return !this.series.length ? [[]] : uPlot.join([...this.series.map(line => smoothed(line, line.values)),
      ...this.series.filter(line => line.low).map(line => smoothed(line, line.high, line.low))]);
  }

  // The vertical range for what is seen; without values that stand far from the others unless they are
  // wanted.
  rangeOf(u, low, high) {
    this.beyond = 0;
    if (low === null || !has(low)) return [0, 1];
    if (!this.look.all && this.kind === LINEAR) {
      const [from, to] = u.series[0].idxs ?? [0, u.data[0].length - 1];
      const seen = u.data.slice(1).filter((_, i) => u.series[i + 1].show).flatMap(list => list.slice(from, to + 1).filter(has));
      const found = robustRange(seen);
      if (found) [low, high, this.beyond] = [found.low, found.high, found.beyond];
    }
    if (high - low < 1e-9 * Math.abs(high)) low = high; // means of equal values differ a little
    if (this.kind === LOG) return uPlot.rangeLog(low, high, 10, false);
    if (this.kind === ASINH) return low === high ? [low - 1, high + 1] : [low, high];
    return uPlot.rangeNum(low, high, 0.1, true);
  }

  rebuild() {
    const width = Math.floor(this.plotBox.clientWidth);
    if (!this.series || width <= 0) return;
    this.plot?.destroy();
    const {isTime} = this.look, n = this.series.length, banded = this.series.filter(s => s.low);
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
    const said = v => !has(v) ? "" : Math.abs(v) >= 1e4 ? short(v) : number(v);
    this.plot = new uPlot({
      width, height: this.height(), legend: {show: false}, padding: [8, 18, 0, 0],
      scales: {x: {time: false, range: (u, low, high) => this.look.zoom ?? (low === high ? [low - 1, high + 1] : [low, high])},
        y: {distr: this.kind, range: (u, low, high) => this.rangeOf(u, low, high)}},
      cursor: {sync: {key: this.along || "steps"}, y: false, drag: {x: true, y: false, setScale: false},
        bind: {dblclick: () => () => this.zoomTo(null)},
        dataIdx: (u, i, at) => nextTo(u.data[i], at),
        points: {size: 9, width: 2, stroke: css("--card"), fill: (u, i) => u.series[i].stroke(u, i)}},
      axes: [{...axis, size: 24, values: (u, ticks) => ticks.map(v => isTime ? duration(v) : short(v)), ...isTime ? {incrs: TIMES, space: 62} : {}},
             {...axis, size: 48, values: (u, ticks) => ticks.map(said)}],
      series: [{label: "steps"}, ...lines, ...edges],
      bands: banded.map((s, k) => ({series: [n + 1 + 2 * k, n + 2 + 2 * k],
        fill: (s.colour ?? colour(this.series.indexOf(s))) + "2e"})),
      hooks: {setCursor: [u => this.showValues(u.cursor.idx ?? null)], draw: [() => this.placeMarks()],
        setSelect: [u => this.select(u)]},
    }, this.data(), this.plotBox);
    this.plot.over.append(this.layer);
    this.buildLegend();
  }

  // One has drawn the pointer over a part of the plot, or of another with the same axis.
  select(u) {
    const {left, width} = u.select;
    if (width < 4) return;
    const zoom = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    this.zoomTo(zoom);
  }

  zoomTo(zoom) {
    if (!this.tools || this.look.zoom?.join() === zoom?.join()) return;
    this.look.zoom = zoom;
    this.tools.changed();
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
    text(this.note, at !== null && steps[at] !== undefined ? this.look.isTime ? `at ${duration(steps[at])}` : `${this.along || "step"} ${short(steps[at])}`
      : this.beyond ? `${this.beyond} value${this.beyond > 1 ? "s" : ""} beyond` : "");
    attribute(this.note, "title", this.beyond ? "Few values stand far from the others; \"all values\" shows them" : null);
  }

  saveCsv() {
    saveCsv(this.key || this.title, this.along || (this.look.isTime ? "seconds" : "env_steps"), this.series.map(s => s.label),
      uPlot.join(this.series.map(s => [s.steps, s.values])));
  }

  savePng() {
    savePng(this.key || this.title, this.title, this.plot, this.series.map((s, i) => ({label: s.label, colour: s.colour ?? colour(i)})));
  }
}

// Distances of marks on an axis of seconds.
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000];

// The keys that zoom all charts of a view, for who has no pointer.
export function zoomKeys(charts, look, tools) {
  const change = fn => () => {
    const plot = [...charts.values()].find(c => c.plot)?.plot;
    if (!plot) return;
    const {min, max} = plot.scales.x, all = plot.data[0], [from, to] = fn(min, max);
    look.zoom = from <= all[0] && to >= all.at(-1) ? null : [from, to];
    tools.changed();
  };
  const by = part => change((min, max) => [min + part * (max - min), max - part * (max - min)]);
  const move = part => change((min, max) => [min + part * (max - min), max + part * (max - min)]);
  return {"+": by(0.25), "-": by(-0.5), "<": move(-0.25), ">": move(0.25), 0: () => { look.zoom = null; tools.changed(); }};
}

// Keeps the charts in `grid`, by their groups' keys, equal to those chosen.
export function syncCharts(grid, charts, groups, chosen, look, tools) {
  const show = groups.filter(g => chosen.has(g.key));
  for (const [key, chart] of charts) {
    if (chosen.has(key)) continue;
    chart.close();
    charts.delete(key);
  }
  for (const g of show) if (!charts.has(g.key)) charts.set(g.key, new Chart(g.title, g.key, look, tools));
  keyed(grid, show, g => g.key, g => charts.get(g.key).node);
}

// A menu of charts to show; keys: a Set that it changes.
export function chartMenu(onChange) {
  let groups = [], chosen = new Set();
  const menu = menuOf("Charts", () => groups.map(g => {
    const input = el("input", {type: "checkbox", checked: chosen.has(g.key), onchange: () => {
      if (input.checked) chosen.add(g.key);
      else chosen.delete(g.key);
      onChange();
    }});
    return el("label", input, el("span", g.title), el("code", g.key));
  }));
  return {node: menu.node, set(all, keys) {
    [groups, chosen] = [all, keys];
    shown(menu.node, groups.length);
    menu.fill();
  }};
}
