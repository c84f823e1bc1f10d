// Plays an episode: the scenes of `brood eval --render x.jsonl` on a canvas.
import {attribute, css, el, keyed, number, shown, text} from "./dom.js";

const SQUARE = new Set(["cell", "header", "chosen", "food", "obstacle"]);

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
    this.node = el("div.player.card", {hidden: true}, this.canvas,
      el("div.controls", this.button, this.slider, this.label, this.speed), this.returns);
    this.keys = {" ": () => this.frames && this.toggle(),
                 ArrowLeft: () => this.frames && this.jump(-1), ArrowRight: () => this.frames && this.jump(1)};
    this.at = 0;
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.node);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.draw();
    this.scheme.addEventListener("change", this.onScheme);
  }

  load([head, ...frames]) {
    this.head = head;
    this.frames = frames;
    shown(this.node, true);
    attribute(this.node, "data-frames", frames.length);
    this.slider.max = frames.length - 1;
    this.findBounds();
    this.at = 0;
    this.show(0);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.play();
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
    if (x0 > x1) [x0, y0, x1, y1] = [-1, -1, 1, 1];
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
    if (t.agent !== undefined) return this.head.agents[t.agent]?.colour ?? css("--accent");
    if (t.kind === "forest") return css("--good") + "40";
    if (t.kind === "food") return "#c0813a";
    if (t.kind === "landmark" || t.kind === "obstacle") return css("--muted");
    return css("--text");
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
    this.trails(c, px, py);
    for (const t of this.frames[this.at].things) this.thing(c, t, px(t.x), py(t.y), Math.max(1.5, t.size * scale));
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

  thing(c, t, x, y, r) {
    const fill = this.colourOf(t);
    c.fillStyle = c.strokeStyle = fill;
    c.lineWidth = 2;
    c.beginPath();
    if (SQUARE.has(t.kind) || t.kind === "speaker") c.rect(x - r, y - r, 2 * r, 2 * r);
    else c.arc(x, y, r, 0, 2 * Math.PI);
    if (["goal", "loading", "contact", "chosen"].includes(t.kind)) c.stroke();
    else if (["cell", "header"].includes(t.kind)) {
      c.globalAlpha = 0.12;
      c.fill();
      c.globalAlpha = 1;
    } else if (t.kind === "adversary" || t.kind === "leader") {
      c.fill();
      c.strokeStyle = css("--text");
      c.stroke();
    } else c.fill();
    if (!t.text) return;
    const inside = t.agent !== undefined && r > 7;
    c.fillStyle = inside ? "#fff" : css("--text");
    c.font = `600 ${Math.round(Math.max(10, Math.min(16, r)))}px system-ui, sans-serif`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.fillText(t.text, x, inside || r > 9 ? y + 0.5 : y - r - 8);
  }

  close() {
    this.stop();
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }
}
