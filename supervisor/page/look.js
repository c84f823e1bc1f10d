// How the charts of a view are drawn, and which: kept in the address behind a ?, so that a link shows the
// same. What is as usual is not in it.
import {attribute, el, kept, shown, text} from "./dom.js";

const query = () => new URLSearchParams(location.hash.split("?")[1] ?? "");
const numberOf = (from, key, otherwise) => from.has(key) && isFinite(from.get(key)) ? Number(from.get(key)) : otherwise;

// {weight, log, isTime, all, marks, zoom: [from, to] or null, large: a chart's key or "", charts: keys or
// null, group}. weight: 0, not smoothed, to 1; all: also values that stand far from the others.
export function readLook() {
  const q = query(), zoom = [numberOf(q, "from", NaN), numberOf(q, "to", NaN)];
  return {weight: Math.min(0.99, Math.max(0, numberOf(q, "smooth", Number(kept("brood-smooth")) || 0))), log: q.has("log"), isTime: q.get("x") === "time",
    all: q.has("all"), marks: q.get("marks") !== "no", zoom: zoom[0] < zoom[1] ? zoom : null, large: q.get("large") ?? "",
    charts: q.has("charts") ? q.get("charts").split(",") : null, group: q.get("group") ?? ""};
}

export function writeLook(look) {
  const q = new URLSearchParams();
  const put = (key, value) => { if (value !== null && value !== "" && value !== false) q.set(key, value === true ? "" : value); };
  put("smooth", look.weight ? look.weight : null);
  put("log", look.log);
  put("x", look.isTime ? "time" : null);
  put("all", look.all);
  put("marks", look.marks ? null : "no");
  put("from", look.zoom && Number(look.zoom[0].toPrecision(6)));
  put("to", look.zoom && Number(look.zoom[1].toPrecision(6)));
  put("large", look.large);
  put("charts", look.charts && look.charts.join(","));
  put("group", look.group);
  const rest = q.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replace(/=(?=&|$)/g, "");
  history.replaceState(null, "", (location.hash.split("?")[0] || "#") + (rest ? `?${rest}` : ""));
}

// The tools above charts: {nodes, update}. onChange: the look has changed, and is in the address.
export function lookTools(look, onChange, hasMarks) {
  const changed = () => {
    writeLook(look);
    update();
    onChange();
  };
  const check = (key, label, title) => {
    const input = el("input", {type: "checkbox", checked: look[key], name: key, onchange: () => {
      look[key] = input.checked;
      changed();
    }});
    return el("label.check", {title}, input, label);
  };
  const slider = el("input", {type: "range", min: 0, max: 0.98, step: 0.02, value: look.weight, name: "smooth", ariaLabel: "Smoothing", oninput: () => {
    look.weight = Number(slider.value);
    kept("brood-smooth", slider.value);
    changed();
  }});
  const weight = el("span.number.muted");
  const x = el("select", {name: "x", ariaLabel: "The horizontal axis", onchange: () => {
    look.isTime = x.value === "time";
    look.zoom = null; // of another unit
    changed();
  }}, el("option", {value: "steps"}, "by steps"), el("option", {value: "time"}, "by time"));
  const reset = el("button", {type: "button", name: "reset", title: "Show all steps again (also: double click)", onclick: () => {
    look.zoom = null;
    changed();
  }}, "Reset zoom");
  const nodes = [reset, el("label.check.smooth", {title: "Smoothing: exponential means"}, "smooth", slider, weight), x,
    check("log", "log", "The vertical axes are logarithmic; of values that are not positive, beyond a small range"),
    check("all", "all values", "Also the few values that stand far from the others, as at a warm-up"),
    hasMarks ? check("marks", "marks", "Deaths, changes and checkpoints") : ""];
  x.value = look.isTime ? "time" : "steps";
  function update() {
    shown(reset, look.zoom);
    text(weight, look.weight ? look.weight.toFixed(2) : "");
    attribute(slider, "aria-valuetext", look.weight ? null : "not smoothed");
  }
  update();
  return {nodes, update, changed};
}
