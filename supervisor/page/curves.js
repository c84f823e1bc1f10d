// The curves of a run, brought up to date as its file grows, and which charts there are of them.
import {RunFile, report} from "./net.js";
import {Table} from "./csv.js";

const REPORT_CHARTS = 24;

export class Curves {
  // rows: how many are kept at most, about (csv.js)
  constructor(run, rows) {
    this.file = new RunFile(run, "metrics/progress.csv");
    this.table = new Table(rows);
    this.isClosed = false;
  }

  // Reads what is new, and calls draw after each part of it. Called meanwhile, it goes round once
  // more: the file may have grown since the answer was made.
  async refresh(draw) {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.again && !this.isClosed) {
        this.again = false;
        const {lines, anew, more} = await this.file.read();
        if (anew) this.table.clear();
        this.table.take(lines);
        this.again ||= more;
        if (anew || lines.length) draw();
      }
    } finally {
      this.busy = false;
    }
  }

  // The lines of a group's chart, over steps or over seconds.
  linesOf(group, isTime) {
    const {table} = this;
    return group.columns.map(([name, label]) => ({label, steps: isTime ? table.seconds : table.steps, values: table.column(name)}));
  }

  // Where a step stands on that axis.
  placeOf(step, isTime) {
    const {steps, seconds} = this.table;
    if (!isTime) return step;
    const at = steps.findIndex(x => x >= step);
    return at < 0 ? null : at === 0 || steps[at] === step ? seconds[at]
      : seconds[at - 1] + (step - steps[at - 1]) / (steps[at] - steps[at - 1]) * (seconds[at] - seconds[at - 1]);
  }

  close() {
    this.isClosed = true;
  }
}

// ---- which charts a run has ----

const RULES = [
  [/^eval\/team_return\/(.+)$/, "eval/team_return", "Evaluated return"],
  [/^rollout\/team_return\/(.+)$/, "rollout/team_return", "Return in training"],
  [/^eval\/return\/(.+)$/, "eval/return", "Evaluated return by agent"],
  [/^rollout\/return\/(.+)$/, "rollout/return", "Return in training by agent"],
  [/^train\/([^/]+)\/(.+)$/, null, null],
  [/^(eval|rollout)\/metric\/(.+)$/, null, null],
];
const WORDS = {q: "Q", kl: "KL", td: "TD"};
const pretty = key => {
  const words = key.replace(/^(time|rollout|eval|train)\//, "").split(/[/_]/)
    .map(word => WORDS[word] ?? word);
  words[0] = words[0][0]?.toUpperCase() + words[0].slice(1);
  return words.join(" ");
};

// [{key, title, columns: [[name, label], ...]}] in the order of interest.
export function groupsOf(all) {
  const groups = new Map();
  for (const name of all) {
    if (name === "env_steps") continue;
    let key = name, title = pretty(name), label = "";
    for (const [pattern, group, head] of RULES) {
      const m = pattern.exec(name);
      if (!m) continue;
      if (group) [key, title, label] = [group, head, m[1]];
      else if (name.startsWith("train/")) [key, title, label] = [`train/${m[2]}`, pretty(m[2]), m[1]];
      else [key, title, label] = [`metric/${m[2]}`, pretty(m[2]), m[1] === "eval" ? "evaluated" : "in training"];
      break;
    }
    if (name === "eval/episode_length") title = "Evaluated episode length";
    if (!groups.has(key)) groups.set(key, {key, title, columns: []});
    groups.get(key).columns.push([name, label || title]);
  }
  const rank = g => ["eval/team_return", "rollout/team_return", "eval/return", "rollout/return"].indexOf(g.key);
  return [...groups.values()].map((g, i) => [rank(g) < 0 ? 10 + i : rank(g), g])
    .sort((a, b) => a[0] - b[0]).map(([, g]) => g);
}

// What is shown unless somebody chose otherwise: in a report, which may be printed, all that tells how
// well the run learns.
export function usualGroups(groups) {
  if (report) return groups.filter(g => /^(eval|rollout)\/(team_return|episode_length)|^metric\/|^train\//.test(g.key))
    .slice(0, REPORT_CHARTS).map(g => g.key);
  const wanted = [/^eval\/team_return/, /^rollout\/team_return/, /^metric\//, /^train\/.*critic_loss$/,
                  /^train\/.*(actor|policy)_loss$/, /^train\/.*value_loss$/, /^rollout\/return/,
                  /^train\/(q_)?loss$/, /env_steps_per_second/];
  return wanted.map(w => groups.find(g => w.test(g.key))).filter(Boolean).slice(0, 6).map(g => g.key);
}
