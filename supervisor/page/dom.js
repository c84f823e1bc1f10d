// Making and updating nodes. Nodes are made once and changed in place; all that comes from a run
// is text, never HTML.

// el("td.number", {title: "x"}, "text", child): an element with classes, properties, children.
export function el(kind, ...rest) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const part of rest) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node || typeof part !== "object") node.append(part);
    else if (Array.isArray(part)) node.append(...part);
    else assign(node, part);
  }
  return node;
}

function assign(node, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else if (key in node && key !== "list") node[key] = value;
    else node.setAttribute(key, value);
  }
}

// A name that may be broken into lines behind its words.
export const name = s => String(s ?? "").split(/(?<=[-_/.,])/).flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);

export function svg(tag, attributes = {}) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

export function text(node, value) {
  const s = value === null || value === undefined ? "" : String(value);
  if (node.textContent !== s) node.textContent = s;
}

export function attribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

// The value of a variable of the style sheet.
export const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function shown(node, is) {
  if (node.hidden === Boolean(is)) node.hidden = !is;
}

// Keeps the children of `parent` equal to a list: make(key) once for each, update(node, item)
// always. The focus stays where it is.
export function keyed(parent, items, key, make, update) {
  const have = parent.keyedNodes ??= new Map(), keep = new Set(items.map(key));
  for (const [k, node] of have) { // first: to move the others would take their focus
    if (keep.has(k)) continue;
    node.remove();
    have.delete(k);
  }
  let at = parent.firstChild;
  for (const item of items) {
    const k = key(item);
    let node = have.get(k);
    if (!node) have.set(k, node = make(item));
    update?.(node, item);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
}

export function toast(message, kind = "good") {
  const node = el(`div.toast.${kind}`, message);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), kind === "bad" ? 9000 : 4000);
}

// A button that does something at a run: it is off while that is under way, and what is refused
// is said. `sure`: it asks once more.
export function actionButton(label, action, {kind = "", sure = "", title = "", done = null} = {}) {
  const button = el(`button${kind ? "." + kind : ""}`, {type: "button", title}, label);
  let armed = 0;
  const disarm = () => {
    armed = 0;
    text(button, button.label ?? label);
    button.classList.remove("armed");
  };
  button.addEventListener("click", async () => {
    if (sure && !armed) {
      armed = setTimeout(disarm, 4000);
      text(button, sure);
      button.classList.add("armed");
      return;
    }
    clearTimeout(armed);
    if (sure) disarm();
    button.disabled = true;
    try {
      const answer = await action(), said = done?.(answer);
      if (said) toast(said);
    } catch (error) {
      toast(error.message, "bad");
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

// A menu that opens below its label, until one clicks elsewhere or presses Escape. items(): what is in it,
// asked for at once and by fill().
export function menuOf(label, items) {
  const box = el("div.menu-list"), node = el("details.menu", el("summary", label), box);
  const outside = event => {
    if (!node.isConnected) document.removeEventListener("click", outside);
    else if (node.open && !node.contains(event.target)) node.open = false;
  };
  const fill = () => box.replaceChildren(...items());
  document.addEventListener("click", outside);
  node.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    node.open = false;
    node.firstChild.focus();
    event.stopPropagation();
  });
  fill();
  return {node, fill};
}

// What the browser keeps for this page, under a key; with a value: keeps it. It may keep nothing.
export function kept(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

// A function that calls fn once for all of its calls that come together.
export function soon(fn) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    setTimeout(() => {
      waits = false;
      fn();
    }, 16);
  };
}

// ---- numbers and times for people ----

const grouped = new Intl.NumberFormat("en-US");
export const whole = n => n === null || n === undefined ? "–" : grouped.format(n);

export function short(n) {
  if (n === null || n === undefined || !isFinite(n)) return "–";
  const a = Math.abs(n);
  for (const [limit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (a >= limit) return trim((n / limit).toFixed(a >= 100 * limit ? 0 : a >= 10 * limit ? 1 : 2)) + letter;
  return String(Math.round(n * 100) / 100);
}

const trim = s => s.includes(".") ? s.replace(/\.?0+$/, "") : s;

export function number(n) {
  if (n === null || n === undefined || !isFinite(n)) return "–";
  const a = Math.abs(n);
  if (a >= 1e6 || (a > 0 && a < 1e-3)) return n.toExponential(2);
  return trim(n.toFixed(a >= 1000 ? 0 : a >= 100 ? 1 : a >= 1 ? 2 : 4));
}

// The newest return, or that of each team where there are several: they may play against each other.
export function returnsText(s, withEvaluations) {
  const teams = (s.returns ?? []).filter(r => r.trained !== null || r.evaluated !== null);
  if (!teams.length) return number(s.team_return_mean);
  return teams.map(r => [teams.length > 1 ? r.team : "", r.trained !== null ? number(r.trained) : "",
    r.evaluated !== null && (withEvaluations || r.trained === null) ? `(evaluated ${number(r.evaluated)})` : ""]
    .filter(Boolean).join(" ")).join(", ");
}

export function bytes(n) {
  if (n === null || n === undefined || n < 0) return "–";
  for (const [limit, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (n >= limit) return `${(n / limit).toFixed(n >= 100 * limit ? 0 : 1)} ${unit}`;
  return `${n} B`;
}

export function duration(s) {
  if (s === null || !isFinite(s) || s < 0) return "–";
  s = Math.round(s);
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = n => String(n).padStart(2, "0");
  if (h >= 48) return `${Math.round(h / 24)} days`;
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

// "2026-01-31 12:00:00" of a time of the journal.
export const clock = time => /^\d.{18}/.test(time ?? "") ? `${time.slice(0, 10)} ${time.slice(11, 19)}` : "–";

export function ago(time) {
  const s = (Date.now() - time) / 1000;
  if (!isFinite(s)) return "–";
  if (s < 60) return "just now";
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  if (s < 30 * 86400) return `${Math.floor(s / 86400)} d ago`;
  return new Date(time).toISOString().slice(0, 10);
}

export const runUrl = (name, tab = "") =>
  `#/run/${encodeURIComponent(name)}${tab ? "/" + tab : ""}`;

// What a list and a header show of a state.
export function stateNode() {
  return el("span.state", el("i", {ariaHidden: "true"}), el("span"));
}

export function setState(node, state) {
  attribute(node, "data-state", state);
  text(node.lastChild, state);
}

export function part(s) {
  if (s.total_steps > 0) return Math.min(1, s.env_steps / s.total_steps);
  if (s.total_episodes > 0) return Math.min(1, (s.episodes ?? 0) / s.total_episodes);
  return null;
}
