// One run: its state, its buttons, and four tabs.
import {ask, on, report} from "./net.js";
import {actionButton, attribute, bytes, duration, el, kept, keyed, part, returnsText, runUrl, setState, short,
        shown, soon, stateNode, text, whole} from "./dom.js";
import {Curves, groupsOf, usualGroups} from "./curves.js";
import {chartMenu, syncCharts, zoomKeys} from "./chart.js";
import {lookTools, readLook} from "./look.js";
import {marksOf} from "./marks.js";
import {settingsTab} from "./settings.js";
import {logsTab} from "./logs.js";
import {episodesTab} from "./episodes.js";
import {happened, recordTab} from "./record.js";
import {runs} from "./list.js";
import {deleteRuns, resumeRuns, tagRuns} from "./actions.js";
import {readOnly} from "./app.js";

// A report has no logs, and shows the others one below the other.
const TABS = [["overview", "Overview", overviewTab], ["settings", "Settings", settingsTab],
              ["logs", "Logs", logsTab], ["episodes", "Episodes", episodesTab], ["record", "Record", recordTab]]
  .filter(([key]) => !report || key !== "logs");
const GONE = ["gone", "exited", "killed"];

function fact(label) {
  const value = el("b", "–");
  return el("div.fact", el("span.muted", label), value);
}

const setFact = (node, value, title) => {
  text(node.lastChild, value);
  attribute(node, "title", title);
};

export function showRun(main, name, tabName) {
  const at = Math.max(0, TABS.findIndex(([key]) => key === tabName));
  const context = {name, view: null, refresh: null};
  const state = stateNode(), exact = el("span.badge", {hidden: true}), why = el("p.why", {hidden: true}), tags = el("span.muted");
  const run = params => ({run: name, ...params});
  const steer = (label, method, done, more = {}) =>
    actionButton(label, () => ask(method, run()), {done, ...more});
  const atStep = what => answer => `${what} at step ${whole(answer.env_steps)}`;
  const pause = steer("Pause", "pause", atStep("Paused"), {title: "Pause at the next round (p)"});
  const go = steer("Continue", "continue", atStep("Continued"), {kind: "primary", title: "Continue (p)"});
  const checkpoint = steer("Checkpoint", "checkpoint", atStep("Checkpoint written"),
    {title: "Write a checkpoint at the next round"});
  const stop = steer("Stop", "stop", atStep("Stopped"),
    {kind: "danger", sure: "Really stop?", title: "Stop after a checkpoint; brood resume continues the run"});
  pause.dataset.action = "pause";
  go.dataset.action = "continue";
  checkpoint.dataset.action = "checkpoint";
  stop.dataset.action = "stop";
  const actions = el("div.actions", {hidden: true}, go, pause, checkpoint, stop);
  // Those of any run, or of one that is over.
  const command = (label, key, fn) => actionButton(label, () => fn([name]), {title: `as \`brood ${key}\``});
  const resume = command("Resume", "resume", resumeRuns), tag = command("Tag …", "tag", names => tagRuns(names, () => context.view.status));
  const remove = command("Delete …", "rm", async names => {
    if ((await deleteRuns(names)).length) location.hash = "#/";
  });
  resume.dataset.action = "resume";
  tag.dataset.action = "tag";
  remove.dataset.action = "rm";
  const commands = el("div.actions", {hidden: true}, resume, tag, remove);
  const facts = {
    steps: fact("steps"), episodes: fact("episodes"), speed: fact("steps / s"), left: fact("left"),
    value: fact("return"), checkpoint: fact("checkpoint"), memory: fact("memory"), elapsed: fact("time"),
  };
  const bar = el("progress.long", {max: 1, ariaLabel: "progress", hidden: true});
  const tabs = el("nav.tabs", {ariaLabel: "Parts of the run"}, ...TABS.map(([key, label], i) =>
    el("a", {href: runUrl(name, i ? key : ""), ariaCurrent: i === at && !report ? "page" : null}, label)));
  const bodies = (report ? TABS : [TABS[at]]).map(() => el("div.tab"));
  main.replaceChildren(el("div.page",
    el("div.head", el("h1", name), state, exact, tags, el("span.grow"), actions, commands),
    why, bar, el("div.facts", ...Object.values(facts)), tabs, bodies));
  const parts = bodies.map((body, i) => TABS[report ? i : at][2](body, context));

  function update(view) {
    const s = view.status, live = view.live;
    context.view = view;
    setState(state, s.state);
    shown(exact, !s.exact);
    text(exact, s.exact ? "" : "not exact");
    attribute(exact, "title", s.exact ? null : "An agent was given up: another run would not end with the same bytes");
    text(tags, [...s.tags.map(t => `#${t}`), s.note].filter(Boolean).join(" "));
    shown(actions, live && !readOnly());
    shown(commands, !readOnly() && !report && s.state !== "deleted");
    shown(resume, !live && s.state !== "done");
    shown(remove, !live);
    shown(pause, s.state !== "paused");
    shown(go, s.state === "paused");
    shown(why, Boolean(s.done_why) || ["failed", "killed", "deleted", "unreadable", "no permission", "not answering", "suspended"].includes(s.state));
    text(why, s.state === "killed" ? "Its supervisor died without an end. `brood resume` continues from the newest checkpoint."
      : s.state === "deleted" ? "Its directory is gone: it was deleted, or has another name now."
      : ["unreadable", "no permission"].includes(s.state) ? runs.get(name)?.why ?? "Its files cannot be read."
      : s.state === "failed" ? s.failure ?? "The run failed: see its journal and logs."
      : ["not answering", "suspended"].includes(s.state) ? [
        s.stalled_since ? `The supervisor has not gone on since ${s.stalled_since}` : "The supervisor does not answer",
        s.stalled_why].filter(Boolean).join(": ")
      : s.done_why ? `Stopped at step ${whole(s.env_steps)}: ${s.done_why}.` : "");
    const p = part(s);
    shown(bar, p !== null);
    if (p !== null) bar.value = p;
    setFact(facts.steps, s.total_steps ? `${short(s.env_steps)} / ${short(s.total_steps)}` : short(s.env_steps),
      whole(s.env_steps));
    setFact(facts.episodes, s.total_episodes ? `${short(s.episodes)} / ${short(s.total_episodes)}` : short(s.episodes),
      whole(s.episodes));
    setFact(facts.speed, live ? short(s.steps_per_second) : "–");
    setFact(facts.left, live && s.state === "running" && s.seconds_left !== null ? duration(s.seconds_left) : "–");
    setFact(facts.value, returnsText(s), returnsText(s, true));
    setFact(facts.checkpoint, s.checkpoint_step >= 0 ? short(s.checkpoint_step) : "–", whole(s.checkpoint_step));
    const rss = [...s.agents, ...s.environments].reduce((n, a) => n + Math.max(0, a.rss_bytes ?? 0), 0);
    setFact(facts.memory, live && rss ? bytes(rss) : "–");
    setFact(facts.elapsed, duration(s.total_seconds ?? s.elapsed_seconds));
    for (const part of parts) part.update(view);
  }

  const ends = [
    on("run", push => { if (push.run === name) update(push); }),
    on("link", is => { if (is) watch(); }),
  ];
  const watch = () => ask("watch", run()).catch(error => {
    if (error.code === undefined) return; // the connection is lost: "link" asks again
    bodies[0].replaceChildren(el("p.empty", error.message));
  });
  watch();
  return {
    title: name,
    trail: [[name, null]],
    keys: {
      ...Object.assign({}, ...parts.map(part => part.keys)),
      p: () => { if (!actions.hidden) (pause.hidden ? go : pause).click(); },
      ...Object.fromEntries(TABS.map(([key], i) =>
        [String(i + 1), () => { location.hash = runUrl(name, i ? key : ""); }])),
    },
    part: report && at ? bodies[at] : null,
    // next: the name of the run that is shown next, if it is one.
    close(next) {
      for (const end of ends) end();
      for (const part of parts) part.close?.();
      if (next !== name) ask("unwatch", run()).catch(() => {});
    },
  };
}

// ---- the overview: curves and agents ----

function overviewTab(body, context) {
  const {name} = context, stored = `brood-charts-${name}`;
  const grid = el("div.charts"), none = el("p.empty", {hidden: true}, "No row of metrics has been written yet.");
  const charts = new Map(), curves = new Curves(name), look = readLook();
  let groups = [], names = null, chosen = null, rows = -1, marks = [], marked = "", markAgain = 0;
  const tools = lookTools(look, () => draw(), true);
  const menu = chartMenu(() => {
    kept(stored, JSON.stringify([...chosen]));
    look.charts = [...chosen];
    syncCharts(grid, charts, groups, chosen, look, tools);
    tools.changed();
  });
  const agents = agentTable(context);
  body.replaceChildren(
    el("section", el("div.tools", el("h2", "Curves"), el("span.grow"), tools.nodes, menu.node), grid, none),
    agents.node);

  const draw = soon(() => {
    if (curves.isClosed) return;
    if (names !== curves.table.names) { // of the file, or of another one in its place
      names = curves.table.names;
      groups = groupsOf(names);
      chosen = new Set(look.charts ?? JSON.parse(kept(stored) ?? "null") ?? usualGroups(groups));
      menu.set(groups, chosen);
      syncCharts(grid, charts, groups, chosen, look, tools);
    }
    const placed = marks.map(m => ({...m, place: curves.placeOf(m.step, look.isTime)}));
    for (const group of groups) {
      charts.get(group.key)?.set(curves.linesOf(group, look.isTime));
      charts.get(group.key)?.setMarks(placed);
    }
  });

  // What happened, when the journal or the checkpoints have changed.
  async function refreshMarks(view) {
    const stamp = `${view.journal} ${view.checkpoints}`;
    if (marked === stamp || marked === "busy" || (view.live && Date.now() < markAgain)) return;
    marked = "busy";
    markAgain = Date.now() + 5000; // the whole journal is read
    try {
      marks = marksOf(...await Promise.all([ask("record", {run: name}), ask("checkpoints", {run: name})]));
      draw();
      marked = stamp;
    } catch {
      marked = ""; // the next view asks again
    }
  }

  return {
    async update(view) {
      agents.update(view);
      refreshMarks(view);
      shown(none, view.rows === 0);
      if (view.rows === rows || view.status.state === "deleted") return;
      rows = view.rows;
      try {
        if (rows) await curves.refresh(draw);
      } catch { // the connection is lost: it comes again, with a view
        rows = -1;
      }
    },
    keys: zoomKeys(charts, look, tools),
    close() {
      curves.close();
      for (const chart of charts.values()) chart.close();
    },
  };
}

function agentTable({name}) {
  const body = el("tbody"), filter = el("input.search", {type: "search", placeholder: "Filter agents",
    ariaLabel: "Filter agents", hidden: true, oninput: () => last && update(last)});
  const summary = el("span.muted");
  const head = el("tr", el("th", "agent"), el("th.number.wide", "pid"), el("th.wide", "host"), el("th", "state"),
    el("th.number", "restarts"), el("th.number.wide", "memory"), el("th.wide", "last exit"), el("th.right", el("span.hide", "actions")));
  const node = el("section.agents", el("div.tools", el("h2", "Processes"), summary, el("span.grow"), filter),
    el("div.scroll", el("table", el("thead", head), body)));
  let last = null, isHosted = false;

  function make(a) {
    const steer = (label, method, said, title) => {
      const b = actionButton(label, () => ask(method, {run: name, agent: a.name}),
        {done: answer => `${a.name}: ${said} at step ${whole(answer.env_steps)}`, title});
      b.classList.add("small");
      b.dataset.action = method;
      return b;
    };
    const buttons = a.isEnvironment ? [] : [
      steer("Kill", "kill", "killed", "Kill the process; its restart policy decides what follows"),
      steer("Respawn", "respawn", "a new process is in place", "Replace the process, and apply what waits for that")];
    return el("tr", {"data-agent": a.name}, el("th", {scope: "row"}, a.name), el("td.number.wide"), el("td.wide"), el("td", stateNode()),
      el("td.number"), el("td.number.wide"), el("td.wide.muted"), el("td.right.buttons", buttons));
  }

  function set(row, a) {
    const [, pid, host, state, restarts, memory, exit, buttons] = row.children;
    text(pid, a.pid || "–");
    text(host, a.host);
    shown(host, isHosted);
    setState(state.firstChild, a.given_up ?? a.state);
    text(restarts, a.total_restarts ?? a.restarts);
    text(memory, bytes(a.rss_bytes ?? -1));
    text(exit, a.last_exit ?? "");
    attribute(restarts, "title", happened(a));
    shown(buttons, last.live && !readOnly());
  }

  function update(view) {
    const s = view.status, all = [...s.agents, ...s.environments.map(e => ({...e, isEnvironment: true}))];
    const words = filter.value.toLowerCase();
    last = view;
    shown(filter, all.length > 12);
    isHosted = all.some(a => a.host); // otherwise all are where the page's server is
    shown(head.children[2], isHosted);
    shown(head.lastChild, view.live && !readOnly());
    const alive = all.filter(a => a.pid).length, restarts = all.reduce((n, a) => n + (a.total_restarts ?? a.restarts ?? 0), 0);
    const nodes = s.nodes ?? [], up = nodes.filter(n => n.state === "up").length;
    text(summary, (view.live ? `${alive} of ${all.length} alive, ${restarts} restarts` : `${all.length}, ${restarts} restarts`) +
      (view.live && nodes.length ? `; ${up} of ${nodes.length} nodes up` : ""));
    keyed(body, all.filter(a => `${a.name} ${a.given_up ?? a.state}`.toLowerCase().includes(words)),
      a => a.name, make, set);
  }

  return {node, update};
}
