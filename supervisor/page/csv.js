// The rows of a progress.csv, thinned as they come: of a file of any length about MAX_VALUES
// values are kept at most.
const MAX_VALUES = 1 << 21, MOST_ROWS = 2400, LEAST_ROWS = 64;
const SPEED = "time/env_steps_per_second";

const valueOf = field => {
  const v = field ? Number(field) : NaN;
  return isFinite(v) ? v : null;
};

// Makes of the n values from `begin` on the lowest and the highest, in their order, at `to`; null:
// there is none, or no other.
function fold(list, begin, n, to) {
  let low = -1, high = -1;
  for (let i = begin; i < begin + n; i++) {
    if (list[i] === null) continue;
    if (low < 0 || list[i] < list[low]) low = i;
    if (high < 0 || list[i] > list[high]) high = i;
  }
  const first = low < 0 ? null : list[Math.min(low, high)], last = low === high ? null : list[Math.max(low, high)];
  list[to] = first;
  list[to + 1] = last;
}

// names: of the columns but that of the steps. The newest row is as it is in the file. Before it,
// two rows stand for `per` rows: of each column the lowest and the highest value, at the steps of
// the first and of the last of them.
export class Table {
  // rows: how many it keeps at most, about
  constructor(rows = MOST_ROWS) {
    this.most = Math.min(rows, MOST_ROWS);
    this.clear();
  }

  clear() {
    this.names = [];
    this.places = new Map();
    this.steps = [];
    this.seconds = []; // that training took until then: zeros if the file does not say it
    this.columns = [];
    this.at = -1; // where the steps stand in a line; -1: there is no header yet
    this.per = 2;
    this.open = 0; // rows since the last ones that are thinned
  }

  // The values of a column, which it may not have.
  column(name) {
    return this.columns[this.places.get(name)] ?? [];
  }

  // Takes whole lines, the first of a file being its header.
  take(lines) {
    for (const line of lines) {
      if (this.at < 0) this.begin(line.split(","));
      else this.add(line.split(","));
    }
  }

  begin(names) {
    this.at = names.indexOf("env_steps");
    if (this.at < 0) throw new Error("progress.csv has no column env_steps");
    names.splice(this.at, 1);
    this.names = names;
    this.places = new Map(names.map((name, i) => [name, i]));
    this.columns = names.map(() => []);
    this.rows = 4 * Math.floor(Math.max(LEAST_ROWS, Math.min(this.most, MAX_VALUES / names.length)) / 4);
  }

  // What is no row, as after a crash, is left out.
  add(fields) {
    const x = valueOf(fields.splice(this.at, 1)[0]);
    if (x === null || x < this.steps.at(-1)) return;
    if (this.open === this.per) this.close();
    this.seconds.push((this.seconds.at(-1) ?? 0) + this.took(x, fields));
    this.steps.push(x);
    for (let i = 0; i < this.columns.length; i++) this.columns[i].push(valueOf(fields[i]));
    this.open++;
  }

  // The seconds from the row before on: it has the speed since then, whatever stood between.
  took(step, fields) {
    const speed = valueOf(fields[this.places.get(SPEED)]);
    return speed > 0 ? (step - (this.steps.at(-1) ?? 0)) / speed : 0;
  }

  // As many rows as two stand for are there.
  close() {
    if (this.per > 2) this.thin(this.steps.length - this.per, this.per);
    this.open = 0;
    if (this.steps.length < this.rows) return;
    this.thin(0, 4);
    this.per *= 2;
  }

  // From a row on, makes two rows of each `n`.
  thin(begin, n) {
    const {steps, seconds} = this;
    let to = begin;
    for (let i = begin; i < steps.length; i += n, to += 2) {
      for (const column of this.columns) fold(column, i, n, to);
      for (const list of [steps, seconds]) [list[to], list[to + 1]] = [list[i], list[i + n - 1]];
    }
    for (const list of [steps, seconds, ...this.columns]) list.length = to;
  }
}
