// The checkpoints of a run, and episodes played with their policies.
import {ask} from "./net.js";
import {ago, attribute, bytes, el, keyed, number, shown, text, whole} from "./dom.js";
import {Player} from "./player.js";

export function episodesTab(body, {name}) {
  const seed = el("input", {inputMode: "numeric", value: "0", ariaLabel: "Seed", pattern: "[0-9]*"});
  const sample = el("input", {type: "checkbox"});
  const table = el("tbody"), none = el("p.empty", {hidden: true}, "No checkpoint has been written yet.");
  const said = el("p.answer", {role: "status"});
  const player = new Player();
  const checkpoints = el("section", el("div.tools", el("h2", "Checkpoints"), el("span.grow"),
      el("label.check", "seed ", seed), el("label.check", {title: "Draw actions from the policies instead of the best ones"}, sample, "sample")),
    el("div.scroll", el("table", el("thead", el("tr", el("th.number", "step"), el("th.wide", "written"),
      el("th.number.wide", "size"), el("th.right", el("span.hide", "episode")))), table)), none);
  body.replaceChildren(el("div.split", checkpoints,
    el("section", el("div.tools", el("h2", "Episode")), said, player.node)));
  text(said, "Play a checkpoint to see what its policies do.");
  let stamp = -1;

  async function play(step) {
    for (const b of table.querySelectorAll("button")) b.disabled = true;
    said.classList.remove("bad");
    text(said, `Playing an episode with the policies of step ${whole(step)} …`);
    try {
      const lines = await ask("evaluate", {run: name, step, seed: seed.value || 0,
                                           stochastic: sample.checked || undefined});
      player.load(lines);
      text(said, `${lines[0].env}, seed ${lines[0].seed}, policies of step ${whole(step)}`);
    } catch (error) {
      said.classList.add("bad");
      text(said, error.message);
    } finally {
      for (const b of table.querySelectorAll("button")) b.disabled = false;
    }
  }

  async function load() {
    const list = await ask("checkpoints", {run: name});
    shown(none, !list.length);
    keyed(table, list, c => c.step, c => el("tr", {"data-step": c.step}, el("td.number", whole(c.step)), el("td.wide.muted"),
      el("td.number.wide.muted"), el("td.right", el("button.small", {type: "button", onclick: () => play(c.step),
        title: "Play an episode with these policies"}, "▶ Play"))),
      (row, c) => {
        text(row.children[1], ago(c.time * 1000));
        text(row.children[2], bytes(c.bytes));
      });
  }

  return {
    keys: player.keys,
    update(view) {
      if (view.checkpoints === stamp) return;
      stamp = view.checkpoints;
      load().catch(error => {
        stamp = -1; // the next view asks again
        shown(none, true);
        text(none, error.message);
      });
    },
    close: () => player.close(),
  };
}
