// What is done to runs that are over, or to any: deleted, resumed, tagged. The program does it as its
// commands do, with their checks and messages.
import {ask} from "./net.js";
import {el, toast} from "./dom.js";
import {runs} from "./list.js";

const many = names => names.length === 1 ? names[0] : `${names.length} runs`;

// One after the other; what is refused is said, and the others are still done. paramsOf: null of a run at
// which nothing is to be done. Resolves with the names for which it was done.
async function each(names, method, paramsOf = () => []) {
  const done = [];
  for (const name of names) {
    const params = paramsOf(name);
    if (!params) continue;
    try {
      const said = await ask(method, [["run", name], ...params]);
      done.push(name);
      if (names.length === 1 && said) toast(said);
    } catch (error) {
      toast(error.message, "bad");
    }
  }
  if (names.length > 1 && done.length) toast(`${method}: ${done.length} of ${names.length} runs`);
  return done;
}

// A dialog over the page, with a form: resolves with whether it was accepted, once it is closed.
function dialogOf(title, body, label, isDangerous) {
  // The first button is that of the Enter key in a field.
  const accept = el(`button.${isDangerous ? "danger" : "primary"}`, {type: "submit", value: "yes"}, label);
  const cancel = el("button", {type: "submit", value: "no", autofocus: isDangerous}, "Cancel");
  const form = el("form", {method: "dialog"}, el("h2", title), body, el("div.choices", accept, cancel));
  const dialog = el("dialog.ask", {ariaLabel: title}, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise(resolve => dialog.addEventListener("close", () => {
    dialog.remove();
    resolve(dialog.returnValue === "yes");
  }));
}

export const resumeRuns = names => each(names, "resume");

export async function deleteRuns(names) {
  const body = [el("p", `The ${names.length > 1 ? "directories" : "directory"}, with checkpoints, metrics and logs, cannot be brought back.`),
    el("ul.names", names.map(name => el("li", name)))];
  return await dialogOf(`Delete ${many(names)}?`, body, `Delete ${many(names)}`, true) ? each(names, "rm") : [];
}

// of(name): {tags, note} that the run has.
export async function tagRuns(names, of = name => runs.get(name)) {
  const have = [...new Set(names.flatMap(name => of(name)?.tags ?? []))].sort();
  const add = el("input", {name: "tags", placeholder: "paper, figure-3", spellcheck: false, autocomplete: "off", ariaLabel: "Tags to add"});
  const note = el("input", {name: "note", autocomplete: "off", ariaLabel: "Note", value: names.length === 1 ? of(names[0])?.note ?? "" : ""});
  const boxes = have.map(tag => el("label.check", el("input", {type: "checkbox", value: tag}), tag));
  const before = note.value;
  if (!await dialogOf(`Tag ${many(names)}`, [
    el("label.field", "add, with commas between", add),
    have.length ? el("fieldset", el("legend", "take away"), boxes) : "",
    names.length === 1 ? el("label.field", "note", note) : ""], "Save")) return [];
  const added = add.value.split(/[\s,]+/).filter(Boolean).map(tag => ["add", tag]);
  const noted = note.value === before ? [] : [["note", note.value]];
  const taken = boxes.map(label => label.firstChild).filter(box => box.checked).map(box => box.value);
  return each(names, "tag", name => { // only what a run has can be taken away
    const params = [...added, ...taken.filter(tag => of(name)?.tags?.includes(tag)).map(tag => ["remove", tag]), ...noted];
    return params.length ? params : null;
  });
}
