// A study: its trials, best first, their settings, and which of these matter.
import {ask, on, report as inlined} from "./net.js";
import {attribute, el, keyed, number, runUrl, shown, svg, text, whole} from "./dom.js";
import {drawParallel} from "./parallel.js";
import {names, runs} from "./list.js";
import {wholeFile} from "./record.js";

const plain = v => Array.isArray(v) ? `[${v.join(", ")}]` : String(v);

// How much the keys say of the value, over the trials of the first rung: [[key, size, text], ...], the most
// first.
function importanceOf({rank_correlation: ranks, variance_share: shares}) {
  return Object.keys(ranks ?? {}).map(key => {
    const rank = ranks[key], share = shares?.[key] ?? null;
    return [key, Math.max(Math.abs(rank ?? 0), share ?? 0), [rank === null ? "" : `rank correlation ${rank.toFixed(2)}`,
      share === null ? "" : `variance share ${share.toFixed(2)}`].filter(Boolean).join(", ")];
  }).filter(([, , said]) => said).sort((a, b) => b[1] - a[1]);
}

// [[rung, its step, trials whose last it is], ...], the last rung first; of pbt and of a grid none.
function rungsOf(trials) {
  const rungs = new Map();
  for (const t of trials.filter(one => one.value !== null && one.rung !== undefined)) {
    if (!rungs.has(t.rung)) rungs.set(t.rung, [t.rung, t.step, 0]);
    rungs.get(t.rung)[2]++;
  }
  return rungs.size > 1 ? [...rungs.values()].sort((a, b) => b[0] - a[0]) : [];
}

const METHODS = {grid: "grid", random: "random draws", asha: "successive halving (asha)", pbt: "population based training"};
const exact = n => n === null ? "–" : String(Number(n.toPrecision(5)));

function factsOf(report) {
  const isPbt = report.method === "pbt", failed = report.trials.filter(t => t.failure).length;
  return [["method", METHODS[report.method]], [isPbt ? "members" : "trials", whole(report.trials.length)],
    ...(isPbt ? [["rounds over", `${report.rounds_over} of ${report.rounds}`]] : []), ["seeds of each", whole(report.seeds)],
    ["metric", `${report.metric ?? "the team's return"}, ${report.higher_is_better ? "higher" : "lower"} is better`],
    ["failed", whole(failed)]];
}

// Who became a fork of whom in a population.
function forksOf({lineage}) {
  const find = (round, member) => lineage.find(r => r.round === round && r.member === member);
  const value = r => typeof r?.value === "number" ? exact(r.value) : "failed";
  return lineage.filter(r => r.from !== null && r.from !== r.member).map(r => {
    const parent = find(r.round - 1, r.from), own = find(r.round - 1, r.member);
    const changed = Object.entries(r.settings).filter(([k, v]) => parent?.settings[k] !== v)
      .map(([k, v]) => `, ${k.split(".").slice(-1)[0]} ${parent?.settings[k]} → ${v}`).join("");
    return el("li", `after step ${parent?.env_steps ?? "?"}: ${r.member} (${value(own)}) became a fork of ${r.from} (${value(parent)})${changed}`);
  });
}

export function showStudy(main, name) {
  const said = el("p.answer"), facts = el("div.facts.words"), more = el("div"), best = el("div.facts"), body = el("tbody"), head = el("tr");
  const plot = svg("svg", {class: "parallel", role: "img", "aria-label": "Settings and values of the trials"});
  const rungs = el("div.chips", {role: "group", ariaLabel: "Rungs"}), figure = el("figure.card.pad.scroll", {hidden: true}, plot);
  const effects = el("div.effects"), importance = el("section", {hidden: true}, el("h2", "Importance of the keys"),
    el("p.muted.note", "Over the trials of the first rung: Spearman's rank correlation of setting and value; of choices, the share of the "
      + "values' variance that lies between them. Few trials say little."), effects);
  let shownRung = null, newest = null;
  const sizes = new ResizeObserver(() => newest && draw());
  sizes.observe(main);
  main.replaceChildren(el("div.page", el("div.head", el("h1", name), el("span.muted", "study")), said, facts, best, rungs, figure, importance,
    el("section", el("h2", "Trials"), el("div.scroll", el("table.trials", el("thead", head), body))), more));
  let busy = false, again = false, closed = false;
  const mark = trial => {
    for (const node of main.querySelectorAll("[data-trial]"))
      node.classList.toggle("pointed", node.dataset.trial === String(trial));
  };

  // What does not change often, made anew.
  function showMore(report) {
    const failed = report.trials.filter(t => t.failure), forks = report.lineage && forksOf(report);
    more.replaceChildren(
      inlined ? el("section", el("h2", report.lineage ? "Values of the members" : "Settings and values"), el("div.scroll", el("img.picture",
        {alt: "", src: `data:image/svg+xml,${encodeURIComponent(inlined.answers.picture[name])}`}))) : "",
      forks ? el("section", el("h2", "Who became a fork of whom"), forks.length ? el("ol.forks", forks)
        : el("p.muted", "No member became a fork yet.")) : "",
      el("section", el("h2", "Failed trials"), failed.length
      ? el("div.scroll", el("table", el("thead", el("tr", el("th.number", "trial"), el("th", "its first run that failed"))),
        el("tbody", failed.map(t => el("tr", el("td.number", t.trial), el("td.words", t.failure))))))
      : el("p.muted", "None failed.")),
      inlined ? el("section", el("h2", "Files of the study"), inlined.answers.files[name].map(([file, content]) =>
        wholeFile(file === "base.yaml" ? "base.yaml, which every trial is with other values" : file, content))) : "");
  }

  // The settings of the trials, of all rungs or of one.
  function draw() {
    const {trials} = newest, list = rungsOf(trials);
    if (!list.some(([rung]) => rung === shownRung)) shownRung = null;
    shown(rungs, list.length);
    keyed(rungs, list.length ? [[null, null, trials.filter(t => t.value !== null).length], ...list] : [], r => String(r[0]),
      ([rung]) => el("button.chip", {type: "button", onclick: () => { shownRung = rung; draw(); }}, el("span"), el("b")), (node, [rung, step, n]) => {
        text(node.firstChild, rung === null ? "all rungs" : `rung ${rung + 1}, step ${whole(step)}`);
        text(node.lastChild, n);
        attribute(node, "aria-pressed", rung === shownRung);
      });
    const mine = trials.filter(t => t.value !== null && (shownRung === null || t.rung === shownRung));
    if (!figure.hidden) drawParallel(plot, newest.search ?? {}, mine, figure.clientWidth - 34, mark);
    for (const row of body.children) attribute(row, "data-rung", shownRung === null || row.rung === shownRung ? null : "other");
  }

  function show(report) {
    const trials = report.trials, keys = trials.length ? Object.keys(trials[0].settings) : [];
    const have = trials.filter(t => t.value !== null);
    text(said, `${trials.length} trials, ${have.length} with a value`);
    keyed(facts, factsOf(report), f => f[0], ([label]) => el("div.fact", el("span.muted", label), el("b")),
      (node, [, v]) => { text(node.lastChild, v); attribute(node, "title", v); });
    showMore(report);
    keyed(best, report.best ? [["best trial", report.best.trial], ["value", number(report.best.value)],
      ...Object.entries(report.best.settings).map(([k, v]) => [k, plain(v)])] : [],
      f => f[0], ([key]) => el("div.fact", {title: key}, el("span.muted", key.split(".").slice(-1)[0]), el("b")),
      (node, [, v]) => text(node.lastChild, v));
    newest = report;
    shown(figure, have.length > 1);
    draw();
    const effect = importanceOf(report);
    shown(importance, effect.length);
    keyed(effects, effect, e => e[0], ([key]) => el("div", el("code", key), el("meter", {min: 0, max: 1}), el("span.number")),
      (node, [, size, said]) => {
        node.children[1].value = size;
        text(node.children[2], said);
      });
    if (head.childElementCount !== keys.length + 5)
      head.replaceChildren(el("th.number", "trial"), el("th.number", "value"), el("th.number", "95 % interval"), el("th.number", "at step"),
        ...keys.map(k => el("th", {title: k}, k.split(".").slice(-1)[0])), el("th", inlined ? "" : "runs"));
    keyed(body, trials, t => t.trial, t => el("tr", {"data-trial": t.trial, onpointerenter: () => mark(t.trial), onpointerleave: () => mark(null)},
      el("td.number", t.trial), el("td.number"), el("td.number.muted"), el("td.number.muted"), ...keys.map(() => el("td")), el("td")),
      (row, t) => {
        row.rung = t.rung;
        text(row.children[1], exact(t.value));
        text(row.children[2], report.seeds > 1 && t.low !== null ? `${exact(t.low)} to ${exact(t.high)}` : "");
        text(row.children[3], t.step === null ? "" : whole(t.step));
        keys.forEach((k, i) => text(row.children[4 + i], plain(t.settings[k]))); // pbt changes them
        const mine = names.filter(n => n.startsWith(`${name}/${t.trial}-s`) || n.startsWith(`${name}/${t.trial}-r`)).sort();
        keyed(row.lastChild, mine, n => n, n => el("a.seed", {href: runUrl(n)}, n.slice(n.lastIndexOf("-s") + 1)),
          (node, n) => attribute(node, "data-state", runs.get(n)?.state));
      });
  }

  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const report = await ask("study", {study: name});
      if (!closed) show(report);
    } catch (error) {
      text(said, error.message);
    } finally {
      busy = false;
      if (again && !closed) setTimeout(() => { again = false; refresh(); }, 2000);
    }
  }
  refresh();
  const end = on("list", push => {
    if (push.names || push.runs.some(r => r.run.startsWith(name + "/"))) refresh();
  });
  return {title: name, trail: [[name, null]], keys: {}, close() { closed = true; end(); sizes.disconnect(); }};
}
