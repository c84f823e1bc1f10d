// The checkpoints of a run, and episodes played with their policies.
import {ask, readWhole, report} from "./net.js";
import {ago, attribute, bytes, el, keyed, number, shown, text, whole} from "./dom.js";
import {Player} from "./player.js";

const PICKED_OF = 20; // episodes (evals.c)

function stepCell(c, cell = el("td.number")) {
  text(cell, c.best ? `★ ${whole(c.step)}` : whole(c.step));
  attribute(cell, "title", c.best ? "That of the best evaluation so far (checkpoint.keep_best)" : null);
  return cell;
}

// In a report: the episode that is in it, and the returns at each checkpoint.
function reportedEpisodes(body, {name}) {
  const table = el("div"), episode = el("div.pictures");
  body.replaceChildren(el("section", el("h2", "Checkpoints"), table), el("section", el("h2", "An episode"), episode));
  ask("checkpoints", {run: name}).then(list => {
    const columns = Object.keys(list[0]?.returns ?? {});
    table.replaceChildren(list.length ? el("div.scroll", el("table", el("thead", el("tr", ["step", "size", ...columns]
      .map(head => el("th.number", head)))), el("tbody", list.map(c => el("tr", {"data-step": c.step}, stepCell(c),
      el("td.number.muted", bytes(c.bytes)), columns.map(k => el("td.number", number(c.returns[k])))))))) : el("p.muted", "It has no checkpoint."));
  });
  ask("episode", {run: name}).then(e => {
    if (!e) return episode.replaceChildren(el("p.muted", "The report shows an episode of the first of the runs that differ only in their seed."));
    if (e.why) return episode.replaceChildren(el("p.muted", `No episode is shown: ${e.why}.`));
    const value = e.return === null ? "" : `, return ${Number(e.return.toPrecision(5))}`;
    episode.replaceChildren(el("p.muted", `Greedy actions of the checkpoint at step ${whole(e.step)}, ${whole(e.length)} steps`
      + `${value}${e.is_cut ? " (cut here)" : ""}. Seed 0, episode 0.`),
      ...e.pictures.map(p => el("img", {alt: p.alt, src: `data:${p.type};base64,${p.base64}`})),
      e.left_out ? el("p.muted", "A picture of more than a few MB is left out: `brood eval --render` draws it.") : "");
  });
  return {keys: {}, update() {}};
}

export function episodesTab(body, context) {
  if (report) return reportedEpisodes(body, context);
  const {name} = context;
  const seed = el("input", {inputMode: "numeric", value: "0", ariaLabel: "Seed", pattern: "[0-9]*"});
  const sample = el("input", {type: "checkbox"});
  const table = el("tbody"), none = el("p.empty", {hidden: true}, "No checkpoint has been written yet.");
  const said = el("p.answer", {role: "status"});
  const player = new Player();
  const checkpoints = el("section", el("div.tools", el("h2", "Checkpoints"), el("span.grow"),
      el("label.check", "seed ", seed), el("label.check", {title: "Draw actions from the policies instead of the best ones"}, sample, "sample")),
    el("div.scroll", el("table", el("thead", el("tr", el("th.number", "step"), el("th.wide", "written"),
      el("th.number.wide", "size"), el("th.right", el("span.hide", "episode")))), table)), none);
  // Those that the run has drawn at its evaluations (evaluation.render).
  const pictures = el("div.chips", {role: "group", ariaLabel: "Pictures of evaluations"});
  const drawn = el("section", {hidden: true}, el("div.tools", el("h2", "Pictures of evaluations")), pictures);
  const picture = el("div.pictures");
  body.replaceChildren(el("div.split", el("div", checkpoints, drawn),
    el("section", el("div.tools", el("h2", "Episode")), said, picture, player.node)));
  text(said, "Play a checkpoint to see what its policies do. Of an environment that cannot be drawn there are no pictures.");
  let stamp = -1;

  // pick: "best" or "worst", of some; undefined: the first episode.
  async function play(step, pick) {
    for (const b of table.querySelectorAll("button")) b.disabled = true;
    said.classList.remove("bad");
    text(said, `Playing an episode with the policies of step ${whole(step)} …`);
    try {
      const lines = await ask("evaluate", {run: name, step, seed: seed.value || 0,
                                           stochastic: sample.checked || undefined, pick});
      picture.replaceChildren();
      player.load(lines);
      text(said, `${lines[0].env}, seed ${lines[0].seed}, policies of step ${whole(step)}`
        + (pick ? `: episode ${lines[0].episode}, the ${pick} of ${PICKED_OF}` : ""));
    } catch (error) {
      said.classList.add("bad");
      text(said, error.message);
    } finally {
      for (const b of table.querySelectorAll("button")) b.disabled = false;
    }
  }

  async function show(file) {
    const [step, type] = file.split(".");
    player.hide();
    picture.replaceChildren();
    said.classList.remove("bad");
    text(said, `The evaluation at step ${whole(Number(step))}`);
    try {
      const data = await readWhole(name, `renders/${file}`);
      if (type === "jsonl") return player.load(new TextDecoder().decode(data).trim().split("\n").map(line => JSON.parse(line)));
      const url = await new Promise((resolve, reject) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result);
        reader.onerror = () => reject(reader.error);
        reader.readAsDataURL(new Blob([data], {type: type === "svg" ? "image/svg+xml" : "image/gif"}));
      });
      picture.replaceChildren(el("img", {alt: `The first episode of the evaluation at step ${step}`, src: url}));
    } catch (error) {
      said.classList.add("bad");
      text(said, error.message);
    }
  }

  async function loadPictures() {
    const list = await ask("pictures", {run: name});
    shown(drawn, list.length);
    keyed(pictures, list, file => file, file => el("button.chip", {type: "button", "data-file": file, onclick: () => show(file)}, `step ${whole(parseInt(file, 10))}`));
  }

  async function load() {
    const list = await ask("checkpoints", {run: name});
    shown(none, !list.length);
    keyed(table, list, c => c.step, c => el("tr", {"data-step": c.step}, stepCell(c), el("td.wide.muted"),
      el("td.number.wide.muted"), el("td.right.buttons", el("button.small", {type: "button", onclick: () => play(c.step),
        title: "Play an episode with these policies"}, "▶ Play"), [["best", "Best"], ["worst", "Worst"]].map(([pick, label]) => el("button.small", {type: "button", "data-pick": pick,
        onclick: () => play(c.step, pick), title: `Play ${PICKED_OF} episodes, and show the ${pick}, by the first team's return`}, label)))),
      (row, c) => {
        stepCell(c, row.children[0]);
        text(row.children[1], ago(c.time * 1000));
        text(row.children[2], bytes(c.bytes));
      });
    loadPictures().catch(() => {}); // below what is there now; after an error with the next view
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
