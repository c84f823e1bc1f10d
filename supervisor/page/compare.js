// Several runs side by side: one line each, or one of each group (seeds, or runs with the same value of a
// key) with its deviation.
import {ask, on, report} from "./net.js";
import {attribute, el, keyed, name, number, runUrl, setState, short, soon, stateNode, text, whole} from "./dom.js";
import {Curves, groupsOf, usualGroups} from "./curves.js";
import {Chart, chartMenu, syncCharts, zoomKeys} from "./chart.js";
import {colour, deviation, has, meanOf} from "./lines.js";
import {lookTools, readLook} from "./look.js";
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

// Algorithms compared over tasks, which only a report can have.
function taskParts({tasks, algorithms, improvement, resamples}) {
  const chart = new Chart("Part of the runs with a greater score, and 95 % interval", "tasks", undefined, null, "score");
  chart.set(algorithms.map((a, k) => ({label: `${a.algorithm} (${a.runs} runs)`, steps: a.profile.tau, values: a.profile.above, colour: colour(k),
    ...(a.iqm.low === null ? {} : {low: a.profile.low, high: a.profile.high})})));
  const exact = n => String(Number(n.toPrecision(5)));
  const estimate = e => el("td.number", e.value.toFixed(2), el("span.muted", e.low === null ? "" : ` ${e.low.toFixed(2)} to ${e.high.toFixed(2)}`));
  const table = (heads, rows) => el("div.scroll", el("table", el("thead", el("tr", heads.map(([h, kind]) => el(`th${kind ?? ""}`, h)))), el("tbody", rows)));
  const head = text => el("th", {scope: "row"}, text), figures = list => list.map(h => [h, ".number"]);
  return el("section", el("h2", "Algorithms over tasks"), el("div.charts", chart.node),
    el("p.muted.note", "Each run has one score, from the mean of its last tenth: 0 and 1 are the lowest and the highest run of its task, or as given. "
      + `Intervals: ${whole(resamples)} stratified resamples.`),
    table([["algorithm"], ...figures(["runs", "IQM", "median", "mean", "optimality gap"])], algorithms.map(a => el("tr", head(a.algorithm),
      el("td.number", whole(a.runs)), [a.iqm, a.median, a.mean, a.optimality_gap].map(estimate)))),
    table([["algorithm"], ["is better than"], ["with probability", ".number"]], improvement.map(p => el("tr", head(p.better), el("td", p.than), estimate(p.probability)))),
    table([["task"], ["metric"], ...figures(["runs", "score 0", "score 1"])], tasks.map(t => el("tr", head(t.task), el("td", t.metric),
      el("td.number", whole(t.runs)), el("td.number", exact(t.low)), el("td.number", exact(t.high))))));
}

// ---- what the runs' configurations differ in ----

const SAME = new Set(["run.name"]); // differs always

// [[key, [value or undefined of each run]], ...] of those that are not equal in all.
function differencesOf(configs) {
  const maps = configs.map(rows => new Map(rows.map(([key, value]) => [key, value])));
  return [...new Set(maps.flatMap(map => [...map.keys()]))].filter(key => !SAME.has(key))
    .map(key => [key, maps.map(map => map.get(key))]).filter(([, values]) => new Set(values).size > 1);
}

function differencesTable(names, differences) {
  if (!differences.length) return el("p.muted", "Their configurations are equal.");
  return el("div.scroll", el("table.config.differences", el("thead", el("tr", el("th", "key"), names.map(n => el("th", name(n))))),
    el("tbody", differences.map(([key, values]) => el("tr", {"data-key": key}, el("th", {scope: "row"}, el("code", name(key))),
      values.map(v => el("td", v === undefined ? "–" : v)))))));
}

// ---- the last and the best value of each run ----

const MEASURES = ["eval/team_return", "rollout/team_return"];

// {isEvaluated, teams: [{team, last, best, step}]} of a run's curves, in evaluations or, without any, in
// training.
function bestOf(curves) {
  for (const group of groupsOf(curves.table.names).filter(g => MEASURES.includes(g.key))) {
    const teams = curves.linesOf(group).map(({label, steps, values}) => {
      let at = -1, last = null;
      values.forEach((v, i) => {
        if (!has(v)) return;
        last = v;
        if (at < 0 || v > values[at]) at = i;
      });
      return at < 0 ? null : {team: label, last, best: values[at], step: steps[at]};
    }).filter(Boolean);
    if (teams.length) return {isEvaluated: group.key === MEASURES[0], teams};
  }
  return {isEvaluated: false, teams: []};
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
  const look = readLook(), tools = lookTools(look, () => draw(), false);
  const grid = el("div.charts"), charts = new Map(), table = el("tbody"), said = el("p.answer.bad");
  const records = el("div"), differences = el("div");
  const group = el("select", {name: "group", ariaLabel: "Group by", onchange: () => {
    look.group = group.value;
    tools.changed();
  }});
  let groups = [], names = [], keys = null, closed = false;
  const menu = chartMenu(() => {
    look.charts = [...keys];
    syncCharts(grid, charts, groups, keys, look, tools);
    tools.changed();
  });
  const hasSeeds = new Set(chosen.map(baseOf)).size < chosen.length;
  let differ = []; // of differencesOf

  // What the runs can be grouped by.
  function fillGroups() {
    const keys = differ.map(([key]) => key);
    group.replaceChildren(el("option", {value: hasSeeds ? "none" : ""}, "each run"), hasSeeds ? el("option", {value: ""}, "mean of seeds") : "",
      ...keys.map(key => el("option", {value: key}, `mean by ${key}`)));
    group.value = look.group === "none" && !hasSeeds ? "" : look.group;
  }
  main.replaceChildren(el("div.page",
    el("div.head", el("h1", `${chosen.length} runs`), el("span.grow"),
      group, tools.nodes, menu.node),
    said, grid,
    el("section", el("h2", "Runs"), el("div.scroll", el("table", el("thead", el("tr", el("th", "run"), el("th", "state"),
      el("th.number", "steps"), el("th.number", "last return"), el("th.number", "best return"), el("th.number", "at step"))), table))),
    el("section", el("h2", "Differences of the configurations"), differences), report?.tasks ? taskParts(report.tasks) : "",
    report ? groupParts(report.groups) : "", records));

  function list() {
    keyed(table, chosen, n => n, n => el("tr", {"data-run": n}, el("th", {scope: "row"}, el("a", {href: runUrl(n)}, name(n))), el("td", stateNode()),
      el("td.number"), el("td.number.lines"), el("td.number.lines"), el("td.number.lines")), (row, n) => {
      const s = runs.get(n), {isEvaluated: evaluated, teams} = bestOf(all.get(n).curves);
      const lines = of => teams.map(t => `${teams.length > 1 ? `${t.team} ` : ""}${of(t)}`).join("\n");
      text(row.children[3], lines(t => number(t.last)));
      text(row.children[4], lines(t => number(t.best)));
      text(row.children[5], teams.map(t => short(t.step)).join("\n"));
      for (const cell of [row.children[3], row.children[4]]) attribute(cell, "title", evaluated ? "evaluated" : "in training");
      if (!s) return;
      setState(row.children[1].firstChild, s.state);
      text(row.children[2], short(s.env_steps));
    });
  }

  // The mean over a chart's columns (teams, agents) of one run; null: it has none of them.
  function lineOf(run, group) {
    const lines = run.curves.linesOf(group, look.isTime).filter(line => line.values.length);
    return lines.length ? {label: run.name, colour: run.colour, steps: lines[0].steps, values: lines[0].values.map((_, i) => {
      const have = lines.map(line => line.values[i]).filter(v => v !== null);
      return have.length ? have.reduce((a, b) => a + b) / have.length : null;
    })} : null;
  }

  // The lines of each group as their mean and standard deviation.
  function banded(lines) {
    const [key, values] = differ.find(([one]) => one === look.group) ?? [""], sets = new Map();
    const shortKey = key.split(".").at(-1);
    for (const line of lines) {
      const base = key ? `${shortKey}=${values[chosen.indexOf(line.label)] ?? "–"}` : baseOf(line.label);
      if (!sets.has(base)) sets.set(base, []);
      sets.get(base).push(line);
    }
    return [...sets].map(([base, set], k) => ({...set.length > 1 ? meanOf(`${base} (${set.length} ${key ? "runs" : "seeds"})`, set, deviation)
      : key ? {...set[0], label: base} : set[0], colour: colour(k)}));
  }

  const draw = soon(() => {
    if (closed) return;
    const found = [...new Set([...all.values()].flatMap(run => run.curves.table.names))];
    if (found.join() !== names.join()) {
      names = found;
      groups = groupsOf(found);
      keys = new Set(look.charts ?? usualGroups(groups).slice(0, report ? undefined : 4));
      menu.set(groups, keys);
      syncCharts(grid, charts, groups, keys, look, tools);
    }
    for (const group of groups.filter(g => charts.has(g.key))) {
      const lines = [...all.values()].map(run => lineOf(run, group)).filter(Boolean);
      charts.get(group.key).set(look.group === "none" ? lines : banded(lines));
    }
    list();
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
  fillGroups();
  for (const run of all.values()) refresh(run);
  Promise.all(chosen.map(run => ask("config", {run}).catch(() => []))).then(configs => {
    if (closed) return;
    differ = differencesOf(configs);
    differences.replaceChildren(differencesTable(chosen, differ));
    fillGroups();
    draw();
  });
  recordParts(chosen).then(parts => records.replaceChildren(...parts)).catch(() => {}); // a run is gone: the others are shown above
  const endLink = on("link", is => { if (is) for (const run of all.values()) if (run.isLost) refresh(run); });
  const end = on("list", push => {
    list();
    for (const one of push.runs) if (all.has(one.run)) refresh(all.get(one.run));
  });
  return {
    title: `compare ${chosen.length} runs`,
    trail: [["compare", null]],
    keys: zoomKeys(charts, look, tools),
    close() {
      closed = true;
      end();
      endLink();
      for (const run of all.values()) run.curves.close();
      for (const chart of charts.values()) chart.close();
    },
  };
}
