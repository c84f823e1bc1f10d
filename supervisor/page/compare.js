// Several runs side by side: one line each, or one of each group of seeds with its deviation.
import {ask, on, report} from "./net.js";
import {el, kept, keyed, number, runUrl, setState, short, soon, stateNode, text, whole} from "./dom.js";
import {Chart, Curves, chartMenu, colour, deviation, groupsOf, meanOf, smoothing, syncCharts, usualGroups} from "./curves.js";
import {runs} from "./list.js";
import {buildTable, defaultsTable, isEvaluated, recordFacts, resultTable} from "./record.js";

const MAX_VALUES = 1e6; // of a chart: the lines' steps may all differ
// "trial-s2" and "lr/3-s1" are seeds of "trial" and of "lr/3".
const baseOf = name => name.replace(/-s\d+$/, "");

// The mean of each group of seeds with its 95 % interval, which only a report has.
function groupParts({metric, list, why}) {
  if (why) return [el("p.muted", `No curves of a return: ${why}`)];
  const chart = new Chart(`${metric}, mean and 95 % interval`, "groups");
  chart.set(list.map((g, k) => ({label: g.n > 1 ? `${g.runs} (${g.n} runs)` : g.runs, steps: g.steps, values: g.means, colour: colour(k),
    ...(g.n > 1 ? {low: g.lows, high: g.highs} : {})})));
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
  const all = new Map(chosen.map((name, i) => [name, {name, colour: colour(i), curves: new Curves(name, MAX_VALUES / chosen.length ** 2)}]));
  const bands = el("input", {type: "checkbox", onchange: () => { kept("brood-bands", bands.checked); draw(); }});
  bands.checked = kept("brood-bands") !== "false";
  const select = smoothing(weight => { for (const c of charts.values()) c.setWeight(weight); });
  const grid = el("div.charts"), charts = new Map(), table = el("tbody"), said = el("p.answer.bad");
  const records = el("div");
  let groups = [], names = [], keys = null, isChosen = false, closed = false;
  const menu = chartMenu(() => {
    isChosen = true;
    syncCharts(grid, charts, groups, keys, Number(select.value));
    draw();
  });
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

  // The mean over a chart's columns (teams, agents) of one run; null: it has none of them.
  function lineOf(run, group) {
    const lines = run.curves.linesOf(group).filter(line => line.values.length);
    return lines.length ? {label: run.name, colour: run.colour, steps: lines[0].steps, values: lines[0].values.map((_, i) => {
      const have = lines.map(line => line.values[i]).filter(v => v !== null);
      return have.length ? have.reduce((a, b) => a + b) / have.length : null;
    })} : null;
  }

  // Lines of the same run with other seeds: their mean and standard deviation.
  function banded(lines) {
    const sets = new Map();
    for (const line of lines) {
      const base = baseOf(line.label);
      if (!sets.has(base)) sets.set(base, []);
      sets.get(base).push(line);
    }
    return [...sets].map(([base, set], k) => ({...set.length > 1 ? meanOf(`${base} (${set.length} seeds)`, set, deviation) : set[0],
      colour: colour(k)}));
  }

  const draw = soon(() => {
    if (closed) return;
    const found = [...new Set([...all.values()].flatMap(run => run.curves.table.names))];
    if (found.join() !== names.join()) {
      names = found;
      groups = groupsOf(found);
      if (!isChosen) keys = new Set(usualGroups(groups).slice(0, report ? undefined : 4));
      menu.set(groups, keys);
      syncCharts(grid, charts, groups, keys, Number(select.value));
    }
    for (const group of groups.filter(g => charts.has(g.key))) {
      const lines = [...all.values()].map(run => lineOf(run, group)).filter(Boolean);
      charts.get(group.key).set(bands.checked && hasSeeds ? banded(lines) : lines);
    }
  });

  async function refresh(run) {
    try {
      await run.curves.refresh(draw);
      run.why = "";
    } catch (error) {
      run.why = error.message;
      run.isLost = error.code === undefined; // the connection
    }
    text(said, [...new Set([...all.values()].map(one => one.why).filter(Boolean))].join("; "));
  }

  list();
  for (const run of all.values()) refresh(run);
  recordParts(chosen).then(parts => records.replaceChildren(...parts)).catch(() => {}); // a run is gone: the others are shown above
  const endLink = on("link", is => { if (is) for (const run of all.values()) if (run.isLost) refresh(run); });
  const end = on("list", push => {
    list();
    for (const one of push.runs) if (all.has(one.run)) refresh(all.get(one.run));
  });
  return {
    title: `compare ${chosen.length} runs`,
    trail: [["compare", null]],
    keys: {},
    close() {
      closed = true;
      end();
      endLink();
      for (const run of all.values()) run.curves.close();
      for (const chart of charts.values()) chart.close();
    },
  };
}
