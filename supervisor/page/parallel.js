// Trials as parallel coordinates: an axis for each key and one for the value, a line for each trial.
import {number, svg} from "./dom.js";

const HEIGHT = 280, TOP = 40, BOTTOM = 20, SIDE = 56, LEAST = 130; // between two axes
const LINE = 15, LETTER = 7; // of labels, in pixels
const plain = v => Array.isArray(v) ? `[${v.join(", ")}]` : String(v);
const asNumber = v => v !== "" && v !== null && isFinite(Number(v)) && typeof v !== "object" ? Number(v) : NaN;
const cut = (s, n) => s.length > n ? s.slice(0, Math.max(1, n - 1)) + "…" : s;

// Where values stand on an axis, 0 to 1, and its labels: numbers by size, or by their logarithm if the study
// draws them so, or if choices span decades; others one below the other. how: of the study's search.
function scaleOf(values, how) {
  const have = values.filter(v => v !== null && v !== undefined), numbers = have.map(asNumber);
  if (have.length && numbers.every(n => !isNaN(n))) {
    const low = Math.min(...numbers), high = Math.max(...numbers);
    const isLog = low > 0 && (how === "log_uniform" || (how === "choice" && high / low >= 30));
    const f = isLog ? Math.log10 : x => x, range = f(high) - f(low);
    const at = v => isNaN(asNumber(v)) || v === null ? null : range ? (f(asNumber(v)) - f(low)) / range : 0.5;
    const between = isLog ? Array.from({length: Math.max(0, Math.ceil(f(high)) - Math.floor(f(low)) - 1)}, (_, i) => 10 ** (Math.floor(f(low)) + 1 + i))
      : how === "choice" ? [...new Set(numbers)] : [low + (high - low) / 2];
    return {at, isLog, ticks: range ? [[0, number(low)], [1, number(high)], ...between.filter(v => v > low && v < high).map(v => [at(v), number(v)])] : [[0.5, number(low)]]};
  }
  const kinds = [...new Set(have.map(plain))].sort();
  const at = i => kinds.length > 1 ? i / (kinds.length - 1) : 0.5;
  return {at: v => kinds.includes(plain(v)) ? at(kinds.indexOf(plain(v))) : null, isLog: false, ticks: kinds.map((k, i) => [at(i), k])};
}

// Of labels that would lie on one another, the first ones.
function apart(ticks, length) {
  const kept = [];
  for (const tick of ticks) if (kept.every(([v]) => Math.abs(v - tick[0]) * length >= LINE)) kept.push(tick);
  return kept;
}

function label(words, whole, attributes) {
  const node = svg("text", attributes);
  node.textContent = words;
  if (words === whole) return node;
  const title = svg("title");
  title.textContent = whole;
  node.append(title);
  return node;
}

// trials: with a value, the best first. width: in pixels, as far as the axes have room; onPoint(trial, or
// null): the pointer is at a line.
export function drawParallel(node, search, trials, width, onPoint) {
  const keys = trials.length ? Object.keys(trials[0].settings) : [];
  const axes = [...keys.map(key => ({name: key, how: search[key], values: trials.map(t => t.settings[key])})),
                {name: "value", values: trials.map(t => t.value)}];
  const wide = Math.max(width, 2 * SIDE + LEAST * (axes.length - 1)), step = (wide - 2 * SIDE) / Math.max(1, axes.length - 1);
  const scales = axes.map(a => scaleOf(a.values, a.how));
  const x = i => SIDE + step * i, y = t => HEIGHT - BOTTOM - t * (HEIGHT - TOP - BOTTOM);
  node.replaceChildren();
  node.setAttribute("viewBox", `0 0 ${wide} ${HEIGHT}`);
  node.style.setProperty("--wide", `${wide}px`);
  const last = Math.max(...trials.map(t => t.rung ?? 0));
  [...trials].reverse().forEach((trial, k) => {
    const i = trials.length - 1 - k;
    const points = axes.map((a, n) => [n, scales[n].at(a.values[i])]).filter(([, v]) => v !== null)
      .map(([n, v]) => `${x(n).toFixed(1)},${y(v).toFixed(1)}`).join(" ");
    const line = svg("polyline", {points, class: i === 0 ? "best" : (trial.rung ?? last) < last ? "early" : "", "data-trial": trial.trial});
    line.style.setProperty("--rank", (1 - i / Math.max(1, trials.length)).toFixed(3));
    const title = svg("title");
    title.textContent = `trial ${trial.trial}: ${number(trial.value)}`;
    line.append(title);
    line.addEventListener("pointerenter", () => onPoint(trial.trial));
    line.addEventListener("pointerleave", () => onPoint(null));
    node.append(line);
  });
  axes.forEach((a, n) => {
    const short = a.name.split(".").at(-1) + (scales[n].isLog ? " (log)" : "");
    node.append(svg("line", {x1: x(n), x2: x(n), y1: y(0), y2: y(1)}),
      label(cut(short, Math.floor(step / LETTER)), a.name, {x: x(n), y: 16, "text-anchor": "middle", class: "axis"}));
    const isLast = n === axes.length - 1;
    for (const [v, words] of apart(scales[n].ticks, HEIGHT - TOP - BOTTOM))
      node.append(label(cut(words, Math.floor((isLast ? SIDE : step) / LETTER) - 1), words, {x: x(n) + 6, y: y(v) + 4}));
  });
}
