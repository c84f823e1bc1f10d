// A study: its trials, best first, and their settings as parallel coordinates.
import {ask, on, report as inlined} from "./net.js";
import {attribute, el, keyed, number, runUrl, shown, svg, text, whole} from "./dom.js";
import {names, runs} from "./list.js";
import {wholeFile} from "./record.js";

const WIDTH = 860, HEIGHT = 260, TOP = 34, BOTTOM = 22, SIDE = 60;
const plain = v => Array.isArray(v) ? `[${v.join(", ")}]` : String(v);
const asNumber = v => v !== "" && v !== null && isFinite(Number(v)) && typeof v !== "object" ? Number(v) : NaN;

// Where values stand on an axis, 0 to 1: numbers by size, by their logarithm if they span
// decades, others one below the other.
function scaleOf(values) {
  const have = values.filter(v => v !== null && v !== undefined);
  const numbers = have.map(asNumber);
  if (have.length && numbers.every(n => !isNaN(n))) {
    const low = Math.min(...numbers), high = Math.max(...numbers), log = low > 0 && high / low >= 30;
    const f = log ? Math.log : x => x, range = f(high) - f(low);
    return {at: v => isNaN(asNumber(v)) || v === null ? null : range ? (f(asNumber(v)) - f(low)) / range : 0.5,
            ticks: range ? [[0, number(low)], [1, number(high)]] : [[0.5, number(low)]]};
  }
  const kinds = [...new Set(have.map(plain))];
  const at = i => kinds.length > 1 ? i / (kinds.length - 1) : 0.5;
  return {at: v => kinds.includes(plain(v)) ? at(kinds.indexOf(plain(v))) : null,
          ticks: kinds.map((k, i) => [at(i), k])};
}

function drawParallel(node, keys, trials, onPoint) {
  const axes = [...keys.map(key => ({name: key, values: trials.map(t => t.settings[key])})),
                {name: "value", values: trials.map(t => t.value)}];
  const scales = axes.map(a => scaleOf(a.values));
  const x = i => SIDE + (WIDTH - 2 * SIDE) * (axes.length > 1 ? i / (axes.length - 1) : 0.5);
  const y = t => HEIGHT - BOTTOM - t * (HEIGHT - TOP - BOTTOM);
  const order = trials.map((t, i) => [t, i]).filter(([t]) => t.value !== null).reverse();
  node.replaceChildren();
  for (const [trial, i] of order) {
    const points = axes.map((a, k) => [k, scales[k].at(a.values[i])]).filter(([, v]) => v !== null)
      .map(([k, v]) => `${x(k).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    const line = svg("polyline", {points, class: i === 0 ? "best" : "", "data-trial": trial.trial});
    line.style.setProperty("--rank", (1 - i / Math.max(1, trials.length)).toFixed(3));
    const title = svg("title");
    title.textContent = `trial ${trial.trial}: ${number(trial.value)}`;
    line.append(title);
    line.addEventListener("pointerenter", () => onPoint(trial.trial));
    line.addEventListener("pointerleave", () => onPoint(null));
    node.append(line);
  }
  axes.forEach((a, k) => {
    node.append(svg("line", {x1: x(k), x2: x(k), y1: y(0), y2: y(1)}));
    const label = svg("text", {x: x(k), y: 14, "text-anchor": "middle", class: "axis"});
    label.textContent = a.name.split(".").slice(-1)[0];
    const title = svg("title");
    title.textContent = a.name;
    label.append(title);
    node.append(label);
    for (const [v, name] of scales[k].ticks) {
      const tick = svg("text", {x: x(k) + 6, y: y(v) + 4});
      tick.textContent = name;
      node.append(tick);
    }
  });
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
  const plot = svg("svg", {class: "parallel", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
                           "aria-label": "Settings and values of the trials"});
  const figure = el("figure.card.pad.scroll", {hidden: true}, plot);
  const effects = el("div.effects");
  main.replaceChildren(el("div.page", el("div.head", el("h1", name), el("span.muted", "study")), said, facts, best, figure, effects,
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
    shown(figure, have.length > 1);
    if (have.length > 1) drawParallel(plot, keys, trials, mark);
    const effect = Object.entries(report.rank_correlation ?? {}).filter(([, v]) => v !== null);
    keyed(effects, effect, e => e[0], ([key]) => el("div", el("code", key), el("meter", {min: 0, max: 1}), el("span.number")),
      (node, [, v]) => {
        node.children[1].value = Math.abs(v);
        text(node.children[2], `rank correlation ${v.toFixed(2)}`);
      });
    if (head.childElementCount !== keys.length + 5)
      head.replaceChildren(el("th.number", "trial"), el("th.number", "value"), el("th.number", "95 % interval"), el("th.number", "at step"),
        ...keys.map(k => el("th", {title: k}, k.split(".").slice(-1)[0])), el("th", inlined ? "" : "runs"));
    keyed(body, trials, t => t.trial, t => el("tr", {"data-trial": t.trial, onpointerenter: () => mark(t.trial), onpointerleave: () => mark(null)},
      el("td.number", t.trial), el("td.number"), el("td.number.muted"), el("td.number.muted"), ...keys.map(() => el("td")), el("td")),
      (row, t) => {
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
  return {title: name, trail: [[name, null]], keys: {}, close() { closed = true; end(); }};
}
