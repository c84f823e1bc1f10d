// Several runs side by side: one line each, or one of each group of seeds with its deviation.
import {ask, on, report} from "./net.js";
import {attribute, el, kept, keyed, number, runUrl, setState, short, shown, stateNode, text, whole} from "./dom.js";
import {Chart, RunColumns, chartMenu, colour, groupsOf, smoothing, syncCharts, usualGroups} from "./curves.js";
import {runs} from "./list.js";
import {buildTable, defaultsTable, isEvaluated, recordFacts, resultTable} from "./record.js";

const POINTS = 300;
// "trial-s2" and "lr/3-s1" are seeds of "trial" and of "lr/3".
const baseOf = name => name.replace(/-s\d+$/, "");

// The value at a step, between its neighbours; null outside.
function valueAt(steps, values, x, from) {
  let i = from.i;
  while (i + 1 < steps.length && steps[i + 1] < x) i++;
  from.i = i;
  if (!steps.length || x < steps[0] || x > steps[steps.length - 1]) return null;
  const j = Math.min(i + 1, steps.length - 1);
  if (values[i] === null || values[j] === null) return values[i] ?? values[j];
  const w = steps[j] > steps[i] ? Math.min(1, Math.max(0, (x - steps[i]) / (steps[j] - steps[i]))) : 0;
  return values[i] + w * (values[j] - values[i]);
}

function compact(steps, values) {
  const keep = values.map((v, i) => v === null ? -1 : i).filter(i => i >= 0);
  return [keep.map(i => steps[i]), keep.map(i => values[i])];
}

// The mean of each group of seeds with its 95 % interval, which only a report has.
function groupParts({metric, list, why}) {
  if (why) return [el("p.muted", `No curves of a return: ${why}`)];
  const steps = [...new Set(list.flatMap(g => g.steps))].sort((a, b) => a - b);
  const at = (g, values) => {
    const have = new Map(g.steps.map((x, i) => [x, values[i]]));
    return steps.map(x => have.get(x) ?? null);
  };
  const chart = new Chart(`${metric}, mean and 95 % interval`, "groups");
  chart.set(steps, list.map((g, k) => ({label: g.n > 1 ? `${g.runs} (${g.n} runs)` : g.runs, values: at(g, g.means), colour: colour(k),
    ...(g.n > 1 ? {low: at(g, g.lows), high: at(g, g.highs)} : {})})));
  const exact = n => n === null ? "–" : String(Number(n.toPrecision(5)));
  return [el("section", el("h2", "Groups of seeds"), el("div.charts", chart.node),
    el("p.muted.note", `${metric}: each run contributes the mean of its last tenth; the interval is bootstrapped, and IQM is the mean without the `
      + "lowest and the highest quarter."),
    el("div.scroll", el("table", el("thead", el("tr", el("th", "runs"), ["n", "mean", "deviation", "95 % interval", "IQM"].map(h => el("th.number", h)))),
      el("tbody", list.map(g => el("tr", el("th", {scope: "row"}, g.runs), [whole(g.n), exact(g.mean), exact(g.std),
        g.low === null ? "–" : `${exact(g.low)} to ${exact(g.high)}`, exact(g.iqm)].map(v => el("td.number", v))))))))];
}

// What the runs' records say, side by side.
async function recordParts(names) {
  const all = await Promise.all(names.map(async name => ({name, record: await ask("record", {run: name}),
    status: report?.views[name].status, live: report?.views[name].live})));
  if (!report) return [el("section", el("h2", "Changed from the defaults"), defaultsTable(all))];
  const facts = all.map(recordFacts);
  return [
    el("section", el("h2", "Each run"), el("div.scroll", el("table.side", el("thead", el("tr", el("th"), names.map(n => el("th", n)))),
      el("tbody", facts[0].map(([label], i) => el("tr", el("th", {scope: "row"}, label), facts.map(f => el("td.words", f[i][1])))))))),
    el("section", el("h2", isEvaluated(all) ? "Evaluation" : "Results in training"), resultTable(all)),
    el("section", el("h2", "Changed from the defaults"), defaultsTable(all)),
    el("section", el("h2", "Build and machine"), buildTable(all))];
}

export function showCompare(main, chosen) {
  const all = new Map(chosen.map((name, i) => [name, {name, index: i, columns: new RunColumns(name)}]));
  const bands = el("input", {type: "checkbox", onchange: () => { kept("brood-bands", bands.checked); drawAll(); }});
  bands.checked = kept("brood-bands") !== "false";
  const select = smoothing(weight => { for (const c of charts.values()) c.setWeight(weight); });
  const grid = el("div.charts"), charts = new Map(), table = el("tbody"), said = el("p.answer.bad");
  const records = el("div");
  let groups = [], keys = null, closed = false;
  const missing = []; // why a run cannot be shown
  const menu = chartMenu(() => sync());
  const hasSeeds = new Set(chosen.map(baseOf)).size < chosen.length;
  main.replaceChildren(el("div.page",
    el("div.head", el("h1", `${chosen.length} runs`), el("span.grow"),
      el("label.check", {hidden: !hasSeeds}, bands, "bands over seeds"), select, menu.node),
    said, grid,
    el("section", el("h2", "Runs"), el("div.scroll", el("table", el("thead", el("tr", el("th", "run"), el("th", "state"),
      el("th.number", "steps"), el("th.number", "return"))), table))), report ? groupParts(report.groups) : "", records));

  function list() {
    keyed(table, chosen, n => n, name => el("tr", el("th", {scope: "row"}, el("a", {href: runUrl(name)}, name)), el("td", stateNode()),
      el("td.number"), el("td.number")), (row, name) => {
      const s = runs.get(name);
      if (!s) return;
      setState(row.children[1].firstChild, s.state);
      text(row.children[2], short(s.env_steps));
      text(row.children[3], number(s.team_return_mean));
    });
  }

  // The mean over a chart's columns (teams, agents) of one run.
  function lineOf(run, group) {
    const c = run.columns.charts.get(group.key);
    if (!c) return [[], []];
    const values = c.steps.map((_, i) => {
      let sum = 0, n = 0;
      for (const column of c.values)
        if (column[i] !== null && column[i] !== undefined) sum += column[i], n++;
      return n ? sum / n : null;
    });
    return compact(c.steps, values);
  }

  function draw(group) {
    const chart = charts.get(group.key), lines = [...all.values()].map(run => [run.name, ...lineOf(run, group)])
      .filter(([, steps]) => steps.length);
    if (!lines.length) return chart.set([], chosen.map(name => ({label: name, values: []})));
    const low = Math.min(...lines.map(([, s]) => s[0])), high = Math.max(...lines.map(([, s]) => s[s.length - 1]));
    const longest = Math.max(...lines.map(([, s]) => s.length));
    const n = Math.max(2, Math.min(POINTS, longest));
    const grid = Array.from({length: n}, (_, i) => low + (high - low) * i / (n - 1));
    const at = lines.map(([name, steps, values]) => {
      const from = {i: 0};
      return {label: name, values: grid.map(x => valueAt(steps, values, x, from)), colour: colour(all.get(name).index)};
    });
    chart.set(grid, bands.checked && hasSeeds ? banded(at) : at);
  }

  // Lines of the same run with other seeds: their mean and standard deviation.
  function banded(lines) {
    const sets = new Map();
    for (const line of lines) {
      const base = baseOf(line.label);
      if (!sets.has(base)) sets.set(base, []);
      sets.get(base).push(line);
    }
    return [...sets].map(([base, set], k) => {
      const mean = [], low = [], high = [];
      for (let i = 0; i < set[0].values.length; i++) {
        const have = set.map(s => s.values[i]).filter(v => v !== null);
        const m = have.length ? have.reduce((a, b) => a + b, 0) / have.length : null;
        const d = have.length > 1 ? Math.sqrt(have.reduce((a, b) => a + (b - m) ** 2, 0) / (have.length - 1)) : 0;
        mean.push(m);
        low.push(m === null ? null : m - d);
        high.push(m === null ? null : m + d);
      }
      return {label: set.length > 1 ? `${base} (${set.length} seeds)` : set[0].label, values: mean, colour: colour(k),
              ...(set.length > 1 ? {low, high} : {})};
    });
  }

  const drawAll = () => { for (const g of groups) if (charts.has(g.key)) draw(g); };

  // Of those runs whose files have changed.
  async function refresh(some) {
    try {
      await Promise.all(some.map(run => run.columns.refresh()));
      text(said, missing.join("; "));
    } catch (error) {
      text(said, error.message);
    }
    if (!closed) drawAll();
  }

  function sync() {
    const show = syncCharts(grid, charts, groups, keys, Number(select.value));
    for (const run of all.values()) run.columns.want(show);
    refresh([...all.values()]);
  }

  async function begin() {
    const found = [], seen = new Set();
    missing.length = 0;
    for (const run of all.values()) {
      let columns;
      try {
        columns = await ask("columns", {run: run.name});
      } catch (error) {
        if (error.code === undefined) throw error; // the connection is lost
        // it was deleted, maybe: the others are shown
        missing.push(error.message);
        all.delete(run.name);
        continue;
      }
      for (const name of columns) if (!seen.has(name)) seen.add(name), found.push(name);
    }
    if (closed) return;
    groups = groupsOf(found);
    keys = new Set(usualGroups(groups).slice(0, report ? undefined : 4));
    menu.set(groups, keys);
    sync();
  }
  let failed = false;
  const start = () => {
    failed = false;
    begin().catch(error => {
      failed = true;
      text(said, error.message);
    });
  };
  list();
  start();
  recordParts(chosen).then(parts => records.replaceChildren(...parts)).catch(() => {}); // a run is gone: the others are shown above
  const endLink = on("link", is => { if (is && failed && !closed) start(); });
  const end = on("list", push => {
    list();
    const some = push.runs.map(one => all.get(one.run)).filter(Boolean);
    if (some.length) refresh(some);
  });
  return {
    title: `compare ${chosen.length} runs`,
    trail: [["compare", null]],
    keys: {},
    close() {
      closed = true;
      end();
      endLink();
      for (const chart of charts.values()) chart.close();
    },
  };
}
