// The shapes of things in an episode: those of the pictures that `brood eval --render` draws, in the page's
// colours (supervisor/render/shapes.c).
import {css, el} from "./dom.js";

const circle = (c, x, y, r) => c.arc(x, y, r, 0, 2 * Math.PI);
const square = (c, x, y, r) => c.rect(x - r, y - r, 2 * r, 2 * r);

// A star of n corners, every second one on the inner circle, the first at the top.
function star(c, x, y, r, n, inner) {
  for (let i = 0; i < n; i++) {
    const at = i % 2 ? r * inner : r, angle = 2 * Math.PI * i / n - Math.PI / 2;
    c.lineTo(x + at * Math.cos(angle), y + at * Math.sin(angle));
  }
  c.closePath();
}

// fill, stroke: colours, or null; dash: of the edge.
function paint(c, trace, {fill = null, stroke = null, width = 1.2, dash = []}) {
  c.beginPath();
  trace();
  if (fill) {
    c.fillStyle = fill;
    c.fill();
  }
  if (!stroke) return;
  c.setLineDash(dash);
  c.lineWidth = width;
  c.strokeStyle = stroke;
  c.stroke();
  c.setLineDash([]);
}

function hatched(c, x, y, r) {
  paint(c, () => circle(c, x, y, r), {fill: "#5b6269"});
  c.save();
  c.beginPath();
  circle(c, x, y, r);
  c.clip();
  paint(c, () => {
    for (let d = -2 * r; d < 2 * r; d += Math.max(r / 4, 5)) {
      c.moveTo(x + d - r, y + r);
      c.lineTo(x + d + r, y - r);
    }
  }, {stroke: "#8b9096", width: 1});
  c.restore();
  paint(c, () => circle(c, x, y, r), {stroke: css("--text")});
}

function goal(c, t, x, y, r, colour) {
  const wide = 1.3 * r + 6 + 8 * (t.value ?? 0);
  paint(c, () => {
    circle(c, x, y, wide);
    for (const [dx, dy] of [[1, 0], [0, 1], [-1, 0], [0, -1]]) {
      c.moveTo(x + (wide - 3) * dx, y + (wide - 3) * dy);
      c.lineTo(x + (wide + 4) * dx, y + (wide + 4) * dy);
    }
  }, {stroke: colour ?? "#f0c000", width: 2.4});
}

const edge = () => css("--text");
const adversary = (c, t, x, y, r, colour) => paint(c, () => star(c, x, y, r, 24, 0.8), {fill: colour, stroke: edge()});

// By kind: its name in the legend, its least radius in pixels, where its text stands, and how it is drawn.
// What lies below others comes first.
const KINDS = {
  forest: {name: "forest: hides who is in it", least: 6, draw: (c, t, x, y, r) =>
    paint(c, () => circle(c, x, y, r), {fill: css("--good") + "33", stroke: css("--good"), dash: [5, 4]})},
  obstacle: {name: "obstacle", least: 5, draw: (c, t, x, y, r) => hatched(c, x, y, r)},
  cell: {name: "payoff", least: 1, table: true, within: true, draw: (c, t, x, y, r) =>
    paint(c, () => square(c, x, y, r), {fill: css("--accent") + Math.round(20 + 100 * Math.min(1, Math.max(0, t.value ?? 0))).toString(16).padStart(2, "0"), stroke: css("--line")})},
  header: {name: "action; filled: chosen", least: 1, table: true, within: true, draw: (c, t, x, y, r, colour) =>
    paint(c, () => c.roundRect(x - Math.min(r, 18), y - Math.min(r, 18), 2 * Math.min(r, 18), 2 * Math.min(r, 18), 4), {fill: t.value > 0 ? colour : null, stroke: colour ?? edge()})},
  chosen: {name: "joint action", least: 1, table: true, draw: (c, t, x, y, r) =>
    paint(c, () => square(c, x, y, r - Math.min(5, 1 + r / 6) / 2), {stroke: edge(), width: Math.min(5, 1 + r / 6)})},
  food: {name: "food", least: 6, within: true, dark: true, draw: (c, t, x, y, r) => paint(c, () => star(c, x, y, r, 6, 1), {fill: "#b9c840", stroke: "#6f7826"})},
  landmark: {name: "landmark", least: 5, within: true, dark: true, draw: (c, t, x, y, r) => paint(c, () => star(c, x, y, 1.3 * r, 4, 1), {fill: "#9aa1a8", stroke: "#5c6165"})},
  goal: {name: "goal", least: 5, draw: goal},
  speaker: {name: "agent that cannot move", least: 5, body: true, draw: (c, t, x, y, r, colour) =>
    paint(c, () => c.roundRect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r, 0.25 * r), {fill: colour, stroke: edge()})},
  agent: {name: "agent", least: 5, body: true, draw: (c, t, x, y, r, colour) => paint(c, () => circle(c, x, y, r), {fill: colour, stroke: edge()})},
  adversary: {name: "adversary", least: 5, body: true, draw: adversary},
  leader: {name: "leader of adversaries", least: 5, body: true, draw(c, t, x, y, r, colour) {
    adversary(c, t, x, y, r, colour);
    paint(c, () => circle(c, x, y, 0.66 * r), {stroke: "#fff", width: Math.max(1.5, 0.12 * r)});
  }},
  loading: {name: "loads", least: 6, draw: (c, t, x, y, r, colour) => paint(c, () => circle(c, x, y, r), {stroke: colour ?? edge(), width: 2.6, dash: [6, 4]})},
  contact: {name: "contact", least: 7, draw: (c, t, x, y, r) => paint(c, () => star(c, x, y, r, 16, 0.5), {fill: "#f7ee55", stroke: "#23282d"})},
};

export const isTable = kind => Boolean(KINDS[kind]?.table);

// t: a thing of a scene; r: in pixels; colour: of the agent that it is or belongs to, or null.
export function drawShape(c, t, x, y, size, colour) {
  const kind = KINDS[t.kind] ?? KINDS.landmark, r = Math.max(size, kind.least);
  kind.draw(c, t, x, y, r, colour);
  if (!t.text) return;
  const isInside = kind.within || (kind.body && r > 7);
  c.fillStyle = !isInside ? css("--text") : kind.body || (t.kind === "header" && t.value > 0) ? "#fff" : kind.dark ? "#23282d" : css("--text");
  c.font = `600 ${Math.round(Math.max(10, Math.min(16, r)))}px system-ui, sans-serif`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillText(t.text, x, isInside ? y + 0.5 : y - r - 8);
}

// The square of side 2 in which episodes of the particle worlds begin, and its centre.
export function arena(c, px, py) {
  paint(c, () => {
    c.rect(px(-1), py(1), px(1) - px(-1), py(-1) - py(1));
    c.moveTo(px(-1), py(0));
    c.lineTo(px(1), py(0));
    c.moveTo(px(0), py(-1));
    c.lineTo(px(0), py(1));
  }, {stroke: css("--muted"), width: 1, dash: [2, 5]});
}

// The fields of a grid, of which one is 1 wide.
export function grid(c, [x0, y0, x1, y1], px, py) {
  paint(c, () => {
    for (let x = x0; x <= x1; x++) { c.moveTo(px(x), py(y0)); c.lineTo(px(x), py(y1)); }
    for (let y = y0; y <= y1; y++) { c.moveTo(px(x0), py(y)); c.lineTo(px(x1), py(y)); }
  }, {stroke: css("--line"), width: 1});
}

// [{canvas, name}, ...] of these kinds.
export function legendOf(kinds, colour) {
  return Object.keys(KINDS).filter(kind => kinds.has(kind)).map(kind => {
    const ratio = devicePixelRatio || 1, canvas = el("canvas", {width: 22 * ratio, height: 22 * ratio, ariaHidden: "true"}), c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    drawShape(c, {kind, value: kind === "goal" ? -0.6 : 1}, 11, 11, kind === "goal" ? 4 : 7, colour);
    return {canvas, name: KINDS[kind].name};
  });
}
