// Plays an episode: the scenes of `brood eval --render x.jsonl` on a canvas.
import {attribute, css, el, keyed, number, shown, text} from "./dom.js";
import {arena, drawShape, grid, isTable, legendOf} from "./shapes.js";

export class Player {
  constructor() {
    this.canvas = el("canvas", {role: "img", ariaLabel: "The world of the episode"});
    this.button = el("button.primary", {type: "button", onclick: () => this.toggle(), title: "Play or stop (Space)"}, "▶");
    this.slider = el("input", {type: "range", min: 0, value: 0, step: 1, ariaLabel: "Step", oninput: () => {
      this.stop();
      this.show(Number(this.slider.value));
    }});
    this.speed = el("select", {ariaLabel: "Speed"}, ...[["2", "slow"], ["6", "normal"], ["20", "fast"]].map(
      ([value, label]) => el("option", {value, selected: value === "6"}, label)));
    this.label = el("span.muted.number");
    this.returns = el("div.returns");
    this.legend = el("div.kinds.muted", {ariaLabel: "Legend"});
    this.node = el("div.player.card", {hidden: true}, this.canvas,
      el("div.controls", this.button, this.slider, this.label, this.speed), this.returns, this.legend);
    this.keys = {" ": () => this.frames && this.toggle(),
                 ArrowLeft: () => this.frames && this.jump(-1), ArrowRight: () => this.frames && this.jump(1)};
    this.at = 0;
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.node);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => {
      if (!this.frames) return;
      this.fillLegend();
      this.draw();
    };
    this.scheme.addEventListener("change", this.onScheme);
  }

  load([head, ...frames]) {
    this.head = head;
    this.frames = frames;
    shown(this.node, true);
    attribute(this.node, "data-frames", frames.length);
    this.slider.max = frames.length - 1;
    this.isWorld = !head.grid && !frames.some(f => f.things.some(t => isTable(t.kind)));
    this.findBounds();
    this.fillLegend();
    this.at = 0;
    this.show(0);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.play();
  }

  hide() {
    this.stop();
    shown(this.node, false);
  }

  // What is seen at some time; the picture does not jump.
  findBounds() {
    let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const f of this.frames) {
      for (const t of f.things) {
        const r = t.size || 0;
        [x0, x1] = [Math.min(x0, t.x - r), Math.max(x1, t.x + r)];
        [y0, y1] = [Math.min(y0, t.y - r), Math.max(y1, t.y + r)];
      }
    }
    if (x0 > x1 || this.isWorld) [x0, y0, x1, y1] = [Math.min(x0, -1), Math.min(y0, -1), Math.max(x1, 1), Math.max(y1, 1)];
    const margin = 0.06 * Math.max(x1 - x0, y1 - y0, 1e-6);
    this.box = [x0 - margin, y0 - margin, x1 + margin, y1 + margin];
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.at >= this.frames.length - 1) this.show(0);
    this.play();
  }

  play() {
    this.stop();
    text(this.button, "❚❚");
    let last = performance.now();
    const tick = now => {
      if (now - last >= 1000 / Number(this.speed.value)) {
        last = now;
        if (this.at >= this.frames.length - 1) return this.stop();
        this.show(this.at + 1);
      }
      this.timer = requestAnimationFrame(tick);
    };
    this.timer = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.timer);
    this.timer = 0;
    text(this.button, "▶");
  }

  jump(by) {
    this.stop();
    this.show(Math.max(0, Math.min(this.frames.length - 1, this.at + by)));
  }

  show(at) {
    this.at = at;
    this.slider.value = at;
    attribute(this.node, "data-at", at);
    const frame = this.frames[at];
    text(this.label, `step ${frame.step} of ${this.frames.length - 1}`);
    const verb = Object.keys(frame).find(k => !["step", "returns", "things"].includes(k));
    const rows = this.head.agents.slice(0, 24).map(a =>
      ({...a, value: frame.returns[a.name], says: verb ? frame[verb][a.name] : ""}));
    keyed(this.returns, rows, a => a.name, a => el("div", el("i", {style: {"--key": a.colour}}),
      el("span", a.name), el("b.number"), el("span.muted")), (node, a) => {
      text(node.children[2], number(a.value));
      text(node.children[3], a.says ? `${verb} ${a.says}` : "");
    });
    this.draw();
  }

  colourOf(t) {
    return t.agent === undefined ? null : this.head.agents[t.agent]?.colour ?? css("--accent");
  }

  // What the shapes mean, of the kinds that the episode has.
  fillLegend() {
    const kinds = new Set(this.frames.flatMap(f => f.things.map(t => t.kind)));
    this.legend.replaceChildren(...legendOf(kinds, css("--muted")).map(({canvas, name}) => el("span", canvas, name)));
  }

  draw() {
    const width = this.node.clientWidth - 24;
    if (!this.frames || width <= 0) return;
    const [x0, y0, x1, y1] = this.box, ratio = window.devicePixelRatio || 1;
    const height = Math.min(Math.max(width * (y1 - y0) / (x1 - x0), 120), 520);
    const scale = Math.min(width / (x1 - x0), height / (y1 - y0));
    const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== pixels[0] || this.canvas.height !== pixels[1]) {
      [this.canvas.width, this.canvas.height] = pixels;
      this.canvas.style.height = `${height}px`;
    }
    const c = this.canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const left = (width - scale * (x1 - x0)) / 2, top = (height - scale * (y1 - y0)) / 2;
    const px = x => left + (x - x0) * scale, py = y => top + (y1 - y) * scale;
    if (this.isWorld) arena(c, px, py);
    else if (this.head.grid) grid(c, this.head.grid, px, py);
    this.trails(c, px, py);
    for (const t of this.frames[this.at].things) drawShape(c, t, px(t.x), py(t.y), t.size * scale, this.colourOf(t));
  }

  // Where the agents were in the last steps.
  trails(c, px, py) {
    const past = this.frames.slice(Math.max(0, this.at - 12), this.at + 1), lines = new Map();
    for (const f of past)
      for (const t of f.things)
        if (t.agent !== undefined && ["agent", "adversary", "leader"].includes(t.kind)) {
          if (!lines.has(t.agent)) lines.set(t.agent, []);
          lines.get(t.agent).push(t);
        }
    c.lineWidth = 2;
    c.lineCap = "round";
    for (const points of lines.values()) {
      for (let i = 1; i < points.length; i++) {
        c.globalAlpha = 0.5 * i / points.length;
        c.strokeStyle = this.colourOf(points[i]);
        c.beginPath();
        c.moveTo(px(points[i - 1].x), py(points[i - 1].y));
        c.lineTo(px(points[i].x), py(points[i].y));
        c.stroke();
      }
    }
    c.globalAlpha = 1;
  }

  close() {
    this.stop();
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }
}
