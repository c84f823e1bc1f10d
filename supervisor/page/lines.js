// Lines of charts: their colours, means, bands and ranges.

const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a6fd1", "#7f8c3b",
                 "#b5485d", "#2aa198"];
export const dark = matchMedia("(prefers-color-scheme: dark)");
const LIGHTER = {"#0072b2": "#4aa8e0", "#009e73": "#2fc596", "#d55e00": "#f0803c", "#b5485d": "#e07a8e",
                 "#7f8c3b": "#b0bd62", "#8a6fd1": "#ab95ea"};
export const colour = i => {
  const c = PALETTE[i % PALETTE.length];
  return dark.matches ? LIGHTER[c] ?? c : c;
};

// Exponential means, corrected for their beginning; gaps stay.
export function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, norm = 0;
  return values.map(v => {
    if (v === null || v === undefined) return v;
    mean = weight * mean + (1 - weight) * v;
    norm = weight * norm + (1 - weight);
    return mean / norm;
  });
}

export const MANY = 12; // lines: beyond, their mean and range are drawn
export const has = v => v !== null && v !== undefined;

// The rows of a line that have a value.
function compact(line) {
  const rows = line.values.map((v, i) => has(v) ? i : -1).filter(i => i >= 0);
  return {steps: rows.map(i => line.steps[i]), values: rows.map(i => line.values[i])};
}

// The values of a line at some steps, between its neighbours; null outside.
function valuesAt({steps, values}, places) {
  let k = 0;
  return places.map(x => {
    while (k < steps.length && steps[k] < x) k++;
    if (steps[k] === x) return values[k];
    if (!k || k === steps.length) return null;
    return values[k - 1] + (x - steps[k - 1]) / (steps[k] - steps[k - 1]) * (values[k] - values[k - 1]);
  });
}

export const range = values => [Math.min(...values), Math.max(...values)];
export function deviation(values, mean) {
  const d = values.length > 1 ? Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1)) : 0;
  return [mean - d, mean + d];
}

// Lines of the same thing as one: their mean, with a band, at all steps at which one has a value.
export function meanOf(label, lines, band) {
  const own = lines.map(compact), [steps] = uPlot.join(own.map(line => [line.steps, line.values]));
  const each = own.map(line => valuesAt(line, steps)), values = [], low = [], high = [];
  steps.forEach((_, i) => {
    const have = each.map(list => list[i]).filter(has);
    const mean = have.length ? have.reduce((a, b) => a + b) / have.length : null;
    const [least, most] = have.length ? band(have, mean) : [null, null];
    values.push(mean);
    low.push(least);
    high.push(most);
  });
  return {label, steps, values, low, high};
}

// The place of the value that is next to a place.
export function nextTo(values, at) {
  for (let d = 0; d < values.length; d++)
    for (const i of [at - d, at + d]) if (has(values[i])) return i;
  return at;
}

const at = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
const SPIKE = 3; // so many times the range of most values is a range that a few of them make

// {low, high, beyond}: the range of most values, and how many are beyond it: a warm-up's spike would make
// of all others a flat line. null: no value makes a range much larger than the others'.
export function robustRange(values) {
  if (values.length < 20) return null;
  const sorted = Float64Array.from(values).sort();
  const [least, most, low, high] = [sorted[0], sorted.at(-1), at(sorted, 0.03), at(sorted, 0.97)];
  const margin = 0.15 * (high - low);
  if (high <= low || most - least <= SPIKE * (high - low)) return null;
  const [from, to] = [Math.max(least, low - margin), Math.min(most, high + margin)];
  return {low: from, high: to, beyond: values.filter(v => v < from || v > to).length};
}
