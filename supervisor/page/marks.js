// What happened to a run, on its charts: a mark at its step, and what it was when one points at it.
import {el} from "./dom.js";
import {wordsOf} from "./record.js";

const KINDS = {exit: "death", supervisor_exit: "death", failed: "death", node_lost: "death", give_up: "give-up", node_give_up: "give-up",
  set: "set", changed: "set"};
const NEAR = 9; // pixels: marks that are nearer to each other are one

// [{step, kind, text}, ...] of a run's record and its checkpoints.
export function marksOf(record, checkpoints) {
  const events = [...record.changes.first, ...record.changes.newest, ...record.ends.first, ...record.ends.newest];
  return [...events.filter(e => KINDS[e.event] && e.env_steps >= 0).map(e => ({step: e.env_steps, kind: KINDS[e.event], text: wordsOf(e).filter(Boolean).join(": ")})),
    ...checkpoints.filter(c => c.step > 0).map(c => ({step: c.step, kind: "checkpoint", text: "checkpoint"}))];
}

// Those that stand at about the same place as one. A death is more than a checkpoint.
const ORDER = ["give-up", "death", "set", "checkpoint"];
function together(marks) {
  const found = [];
  for (const mark of marks.sort((a, b) => a.left - b.left)) {
    const last = found.at(-1);
    if (last && mark.left - last.left < NEAR) last.all.push(mark);
    else found.push({left: mark.left, all: [mark]});
  }
  return found;
}

// Fills a layer over a plot. placed: marks with `left`, in pixels. One of them is reached by Tab, the
// others by the arrow keys.
export function drawMarks(layer, placed) {
  layer.replaceChildren(...together(placed).map(({left, all}, i) => {
    const kind = ORDER.find(k => all.some(m => m.kind === k));
    const lines = [...new Set(all.slice(0, 6).map(m => `step ${m.step.toLocaleString("en-US")}: ${m.text}`)), ...all.length > 6 ? [`and ${all.length - 6} more`] : []];
    const node = el(`button.mark.${kind}`, {type: "button", ariaLabel: lines.join("; "), tabIndex: i ? -1 : 0, style: {left: `${left}px`}},
      el("span.tip", {role: "tooltip"}, lines.map(line => el("span", line))));
    const isRight = left > layer.clientWidth / 2;
    node.classList.toggle("right", isRight);
    node.style.setProperty("--room", `${isRight ? left : layer.clientWidth - left}px`); // of the tip
    return node;
  }));
}

// The keys of such a layer.
export function marksLayer() {
  const layer = el("div.marks", {onkeydown: event => {
    const next = event.key === "ArrowRight" ? "nextElementSibling" : event.key === "ArrowLeft" ? "previousElementSibling" : "";
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    document.activeElement[next]?.focus();
  }});
  return layer;
}
