// The settings of a run: changing a live one, what is pending, the configuration, and its
// differences to another run.
import {ask} from "./net.js";
import {actionButton, attribute, el, keyed, name as breakable, shown, text, toast, whole} from "./dom.js";
import {names} from "./list.js";
import {readOnly} from "./app.js";

const pairsText = s => s.replace(/,(?=[\w.]+=)/g, ", ");

export function settingsTab(body, context) {
  const {name} = context;
  let config = [], other = null, shownAt = -1, live = false;

  // ---- the form ----
  const key = el("input", {name: "key", required: true, spellcheck: false, autocomplete: "off",
    placeholder: "defaults.optimizer.learning_rate", ariaLabel: "Key"});
  key.setAttribute("list", "live-keys");
  const keys = el("datalist", {id: "live-keys"});
  const value = el("input", {name: "value", spellcheck: false, autocomplete: "off", placeholder: "value", ariaLabel: "Value"});
  const step = el("input", {name: "at", inputMode: "numeric", autocomplete: "off", placeholder: "next round",
    ariaLabel: "At step"});
  const said = el("p.answer", {role: "status"});
  const submit = el("button.primary", {type: "submit"}, "Set");
  const form = el("form.set", {onsubmit: send},
    el("label.big", el("span", "key"), key), el("label", el("span", "value"), value),
    el("label", el("span", "at step"), step), submit, keys, said);
  const hint = el("p.muted", "The checks and the messages are those of `brood set`. A click on a value below fills in its key.");
  const formBox = el("section.card.pad", el("h2", "Change a live setting"), form, hint);

  function say(message, isBad) {
    text(said, message);
    said.classList.toggle("bad", isBad);
  }

  async function send(event) {
    event.preventDefault();
    submit.disabled = true;
    try {
      const answer = await ask("set", {run: name, change: `${key.value.trim()}=${value.value.trim()}`,
                                       at: step.value.trim() || undefined});
      say([answer.changes && `from step ${whole(answer.at)} on: ${pairsText(answer.changes)}`,
           answer.waits && `waits for a respawn: ${pairsText(answer.waits)}`].filter(Boolean).join("; ") ||
          "nothing changes", false);
    } catch (error) {
      say(error.message, true);
    } finally {
      submit.disabled = false;
    }
  }

  // ---- pending ----
  const pendingList = el("ul.pending");
  const pendingBox = el("section.card.pad", {hidden: true}, el("h2", "Pending"), pendingList);

  function makePending(p) {
    return el("li", el("code"), el("span.muted"), actionButton("Cancel",
      () => ask("cancel", {run: name, key: p.key}), {kind: "small", done: () => `${p.key}: cancelled`}));
  }

  function setPending(node, p) {
    text(node.children[0], p.value === "" ? `${p.key}: removed` : `${p.key}=${p.value}`);
    text(node.children[1], p.agent ? `with the next respawn of ${p.agent}` : `from step ${whole(p.at_step)} on`);
    shown(node.children[2], !readOnly());
  }

  // ---- the configuration ----
  const filter = el("input.search", {type: "search", placeholder: "Filter keys   /", ariaLabel: "Filter keys",
    oninput: show});
  const against = el("select", {ariaLabel: "Compare with", onchange: choose});
  const table = el("tbody");
  const otherHead = el("th", {hidden: true});
  const none = el("p.empty", {hidden: true});
  const configBox = el("section", el("div.tools", el("h2", "Configuration"), el("span.grow"), filter, against),
    el("div.scroll", el("table.config", el("thead", el("tr", el("th", "key"), el("th", name), otherHead)), table)), none);
  body.replaceChildren(formBox, pendingBox, configBox);

  function fillRuns() {
    const now = against.value;
    against.replaceChildren(el("option", {value: ""}, "differences to …"),
      ...names.filter(n => n !== name).map(n => el("option", {value: n}, n)));
    against.value = now;
  }

  async function choose() {
    other = null;
    if (against.value) {
      try {
        other = new Map((await ask("config", {run: against.value})).map(([k, v]) => [k, v]));
      } catch (error) {
        toast(error.message, "bad");
      }
    }
    show();
  }

  function rows() {
    const mine = config.map(([k, v, isLive]) => ({key: k, value: v, isLive, other: other?.get(k)}));
    if (!other) return mine;
    const have = new Set(config.map(([k]) => k));
    for (const [k, v] of other) if (!have.has(k)) mine.push({key: k, value: undefined, other: v});
    return mine.filter(r => r.value !== r.other);
  }

  function show() {
    const words = filter.value.toLowerCase().split(/\s+/);
    const list = rows().filter(r => words.every(w => `${r.key} ${r.value}`.toLowerCase().includes(w)));
    shown(otherHead, other);
    text(otherHead, against.value);
    shown(none, !list.length);
    text(none, other && !filter.value ? "The two configurations are equal." : "No key matches.");
    keyed(table, list, r => r.key, r => el("tr", {"data-key": r.key},
      el("th", {scope: "row"}, el("button.key-name", {type: "button", onclick: () => {
        if (formBox.hidden) return;
        key.value = r.key;
        value.value = config.find(([k]) => k === r.key)?.[1] ?? "";
        value.focus();
        value.select();
      }}, breakable(r.key))), el("td"), el("td")), (node, r) => {
      const button = node.firstChild.firstChild;
      text(node.children[1], r.value === undefined ? "(not given)" : r.value);
      text(node.children[2], r.other === undefined ? "(not given)" : r.other);
      shown(node.children[2], other);
      button.disabled = !r.isLive || formBox.hidden;
      attribute(node, "data-live", r.isLive && live);
      attribute(button, "title", r.isLive ? "This value can change while the run lives" : null);
    });
  }

  async function load() {
    config = await ask("config", {run: name});
    keys.replaceChildren(...config.filter(c => c[2]).map(([k]) => el("option", {value: k})));
    fillRuns();
    show();
  }

  return {
    keys: {"/": () => filter.focus()},
    update(view) {
      const changed = live !== view.live;
      live = view.live;
      shown(formBox, view.live && !readOnly());
      shown(pendingBox, view.status.pending.length);
      keyed(pendingList, view.status.pending, p => `${p.key} ${p.at_step} ${p.agent}`, makePending, setPending);
      if (view.config === shownAt) return changed && show();
      shownAt = view.config;
      load().catch(error => {
        shownAt = -1; // the next view asks again
        shown(none, true);
        text(none, error.message);
      });
    },
  };
}
