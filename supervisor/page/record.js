// What a run did: how long it took and how good it became, what was changed, what died, what its
// configuration changes from the defaults, and its build.
import {ask, report} from "./net.js";
import {clock, duration, el, shown, text, whole} from "./dom.js";

const exact = n => n === null || n === undefined ? "–" : String(Number(n.toPrecision(5)));

// ---- events in words ----

const processOf = e => e.agent ?? `environment ${e.environment ?? "?"}`;
const nodeOf = e => `${e.node ?? "a node"}${e.host ? ` (${e.host})` : ""}`;
const modeOf = e => e.mode ? `: ${e.mode}` : "";
const SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
  11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ"};
const signalOf = e => SIGNALS[e.signal] ?? `signal ${e.signal}`;
const exitOf = e => e.limit ?? (e.signal ? signalOf(e) : e.code >= 0 ? `code ${e.code}` : "unknown");
const changesOf = e => typeof e.changes === "string" ? e.changes
  : Object.entries(e.changes ?? {}).map(([k, v]) => `${k}=${v}`).join(", ");

// By kind: what happened, and what is said of it.
const WORDS = {
  start: () => ["resumed"], resume: () => ["resumed"],
  fork: e => [`began as a fork of ${e.name ?? "?"}`],
  done: e => ["came to its end before its length", e.why],
  end: e => [`ended: ${e.state ?? "?"}`],
  set: e => ["set", changesOf(e) + (e.at ? ` from step ${e.at}` : "")],
  waits: e => ["set, waits for a respawn", changesOf(e)],
  cancel: e => ["cancelled", changesOf(e)],
  changed: e => ["in force", changesOf(e)],
  refused: e => ["refused", e.error],
  pause: () => ["paused"], continue: () => ["continued"], stop: () => ["asked to stop"],
  signal: e => ["signal", e.name],
  failed: e => ["the run failed", e.error],
  inexact: e => ["no longer exact", e.why],
  checkpoint_failed: e => ["a checkpoint could not be written", e.error],
  full: e => ["the disk was full", e.error],
  space: () => ["the disk has space again"],
  skip_episode: e => ["an episode that failed was skipped", e.why],
  supervisor_stalls: e => ["the supervisor did not go on", e.why],
  supervisor_goes_on: () => ["the supervisor went on"],
  supervisor_exit: e => [`the supervisor (pid ${e.pid}) died${e.signal ? `: ${signalOf(e)}` : ""}`, "its keeper began another one"],
  exit: e => [`${processOf(e)} ${e.code >= 0 ? "ended with" : "died:"} ${exitOf(e)}${e.in ? `, while ${e.in}` : ""}`,
    [e.why, e.lines].filter(Boolean).join("\n")],
  respawn: e => [`${processOf(e)} was respawned as pid ${e.pid}`],
  wait: e => [`${processOf(e)} waits ${((e.delay_ms ?? 0) / 1000).toFixed(1)} s for its next process`],
  give_up: e => [`${processOf(e)} was given up${modeOf(e)}`, e.why],
  take_back: e => [`${processOf(e)} was taken back${modeOf(e)}`, e.why],
  turned: e => [`${processOf(e)} changed its mode${modeOf(e)}`, e.why],
  node_lost: e => [`${nodeOf(e)} was lost`, e.why],
  node_restart: e => [`${nodeOf(e)} was started again`, e.why],
  node_give_up: e => [`${nodeOf(e)} was given up${e.to ? `, its agents moved to ${e.to}` : ""}`, e.why],
  message: e => [e.text],
};

// [what happened, what is said of it].
export const wordsOf = e => WORDS[e.event]?.(e) ?? [e.event];

function eventRow(e) {
  const [what, detail] = wordsOf(e);
  return el("tr", el("td.muted", clock(e.time)), el("td.number", e.env_steps >= 0 ? whole(e.env_steps) : "–"),
    el("td.words", what, detail ? el("div.detail", detail) : null));
}

function eventTable({n, first, newest}, none) {
  if (!n) return el("p.muted", none);
  const left = n - first.length - newest.length;
  return el("div.scroll", el("table.events", el("thead", el("tr", el("th", "time (UTC)"), el("th.number", "step"), el("th", "what"))),
    el("tbody", first.map(eventRow),
      left > 0 ? el("tr", el("td.muted", {colSpan: 3}, `${whole(left)} more, which are in the run's journal`)) : null,
      newest.map(eventRow))));
}

// ---- tables of one run or several ----

// A column for each run. rows: [[label, [text of each run]], ...].
function sideBySide(names, rows) {
  return el("div.scroll", el("table.side", names.length > 1 ? el("thead", el("tr", el("th"), names.map(n => el("th", n)))) : null,
    el("tbody", rows.map(([label, values]) => el("tr", el("th", {scope: "row"}, label), values.map(v => el("td.words", v)))))));
}

const BUILD = [["brood", "brood"], ["agent's build", "agent build id"], ["numerics", "numerics"], ["kernels", "kernels"],
  ["CPU", "cpu"], ["system", "kernel"], ["compiler", "compiler"], ["OpenBLAS", "OpenBLAS"], ["command", "command"]];

export function buildTable(runs) {
  return sideBySide(runs.map(r => r.name), [
    ...BUILD.map(([label, key]) => [label, runs.map(r => r.record.provenance.find(([k]) => k === key)?.[1] ?? "–")]),
    ["exact", runs.map(({status: s}) => (s.exact ? "yes: the bytes of an undisturbed run" : "no: see its deaths")
      + (s.not_portable ? `; only on this kind of machine: ${s.not_portable}` : ""))]]);
}

// What runs change from the defaults; a default that another run changes is muted.
export function defaultsTable(runs) {
  const keys = [...new Set(runs.flatMap(r => r.record.defaults.rows.map(([key]) => key)))];
  const why = runs.map(r => r.record.defaults.why).find(Boolean);
  const parts = [];
  if (why) parts.push(el("p.muted", `The defaults could not be found out: ${why}.`));
  else if (!keys.length) parts.push(el("p.muted", "All values are the defaults."));
  if (!keys.length) return el("div", parts);
  const rowOf = (r, key) => r.record.defaults.rows.find(([k]) => k === key);
  const cell = (value, isMuted) => el(`td.words${isMuted ? ".muted" : ""}`, value ? value : "–");
  return el("div", parts, el("div.scroll", el("table.config", el("thead", el("tr", el("th", "key"),
    runs.map(r => el("th", runs.length > 1 ? r.name : "this run")), el("th", "default"))),
    el("tbody", keys.map(key => {
      const rows = runs.map(r => rowOf(r, key));
      const defaults = [...new Set(rows.map(row => row?.[2]).filter(v => v !== null && v !== undefined))];
      return el("tr", el("th", {scope: "row"}, el("code", key)),
        rows.map(row => row ? cell(row[1], !row[3]) : cell(defaults.length === 1 ? defaults[0] : "", true)),
        cell(defaults.join(" or "), true));
    })))));
}

// The newest and the best return of each team.
export function resultTable(runs) {
  if (!runs.some(r => r.record.results.length)) return el("p.muted", "There is no return yet.");
  return el("div.scroll", el("table", el("thead", el("tr", runs.length > 1 ? el("th", "run") : null, el("th", "column"),
    el("th.number", "newest"), el("th.number", "at step"), el("th.number", "best"), el("th.number", "at step"))),
    el("tbody", runs.flatMap(r => r.record.results.map(x => el("tr", runs.length > 1 ? el("th", {scope: "row"}, r.name) : null,
      el("td", x.column), el("td.number", exact(x.last)), el("td.number", whole(x.last_step)), el("td.number", exact(x.best)),
      el("td.number", whole(x.best_step))))))));
}

// What took how long: [[label, text], ...].
export function recordFacts({record: r, status: s, live}) {
  const seconds = r.seconds + (live && s.elapsed_seconds >= 0 ? s.elapsed_seconds : r.open_seconds);
  const taken = r.starts < 2 && seconds < 60 ? `${seconds.toFixed(1)} s` : duration(seconds);
  return [["algorithm", r.algorithms ?? "–"],
    ["environment", `${r.environment ?? "–"}, ${whole(r.agents)} agent${r.agents === 1 ? "" : "s"}`],
    ["seed", r.seed === null ? "–" : String(r.seed)], ["began (UTC)", clock(r.began)],
    ["time taken", r.starts > 1 ? `${taken}, ${r.starts} starts` : taken], ["deaths", whole(r.deaths)]];
}

export const wholeFile = (title, content) => el("details.file.card", el("summary", title), el("pre", content));

export const isEvaluated = runs => runs.some(r => r.record.results.some(x => x.column.startsWith("eval/")));

export function recordTab(body, {name}) {
  const parts = el("div.record"), none = el("p.empty", {hidden: true});
  body.replaceChildren(parts, none);
  let stamp = null, newest = null, busy = false;

  function show(record, view) {
    const run = {name, record, status: view.status, live: view.live}, killed = view.status.state === "killed";
    const counts = [...view.status.agents, ...view.status.environments].map(a => [a.name, happened(a)]).filter(([, h]) => h);
    const wasOpen = parts.querySelector("details")?.open;
    parts.replaceChildren(
      record.failure ? el("p.why", record.failure) : "",
      el("div.facts", recordFacts(run).map(([label, value]) => el("div.fact", {title: value}, el("span.muted", label), el("b", value)))),
      report ? el("section", el("h2", isEvaluated([run]) ? "Evaluation" : "Results in training"), resultTable([run])) : "",
      el("section", el("h2", "Changes while it ran"), eventTable(record.changes, "Nothing was changed, and nobody asked for anything.")),
      el("section", el("h2", "Deaths and respawns"), counts.map(([who, h]) => el("p.muted", `${who}: ${h}`)),
        record.ends.n || !killed ? eventTable(record.ends, "No process died.") : "",
        killed ? el("p.muted", "Its supervisor was killed: no end is recorded. `brood resume` continues the run.") : ""),
      el("section", el("h2", "Changed from the defaults"), defaultsTable([run]), wholeFile("The whole configuration", record.text)),
      el("section", el("h2", "Build and machine"), buildTable([run])));
    if (wasOpen) parts.querySelector("details").open = true;
  }

  // One request at a time: the journal may grow faster than it is read.
  async function refresh() {
    if (busy) return;
    busy = true;
    try {
      for (let now; (now = `${newest.journal} ${newest.config} ${newest.live} ${newest.status.state}`) !== stamp;) {
        stamp = now;
        show(await ask("record", {run: name}), newest);
        shown(none, false);
      }
    } catch (error) {
      stamp = null; // the next view asks again
      shown(none, true);
      text(none, error.message);
    } finally {
      busy = false;
    }
  }

  return {
    keys: {},
    update(view) {
      newest = view;
      refresh();
    },
  };
}

// What has happened to a process in the whole run; null: nothing has.
export function happened(a) {
  const parts = [[a.total_restarts, "restart"], [a.hangs, "hang"], [a.slow_answers, "slow answer"],
    [a.skipped_episodes, "skipped episode"]].filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}${n > 1 ? "s" : ""}`);
  return parts.length ? `${parts.join(", ")}, ${a.lost_seconds.toFixed(1)} s lost` : null;
}
