// The journal and the logs of a run, which follow.
import {RunFile, ask} from "./net.js";
import {attribute, el, shown, text} from "./dom.js";

const MAX_LINES = 3000, FIRST_BYTES = 32 << 10;
const JOURNAL = /^(\S+T(\d\d:\d\d:\d\d)\S*) (?:step=(\d+) )?event=(\S+) ?(.*)$/;

export function logsTab(body, {name}) {
  const select = el("select", {ariaLabel: "Log", onchange: begin}, el("option", {value: "journal"}, "journal"));
  const follow = el("input", {type: "checkbox", checked: true, onchange: () => follow.checked && toEnd()});
  const filter = el("input.search", {type: "search", placeholder: "Filter lines   /", ariaLabel: "Filter lines",
    oninput: () => { for (const line of lines.children) match(line); }});
  const lines = el("ol.log", {tabIndex: 0, ariaLabel: "Lines"}), none = el("p.empty", {hidden: true}, "Nothing has been written.");
  let file = null, which = "journal", busy = false, again = false, timer = 0, closed = false, failures = 0, retry = 0;
  body.replaceChildren(el("section", el("div.tools", el("h2", "Logs"), select,
    el("label.check", follow, "follow"), el("span.grow"), filter), lines, none));
  lines.addEventListener("scroll", () => {
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 24;
    if (follow.checked !== atEnd) follow.checked = atEnd;
  });

  const toEnd = () => { lines.scrollTop = lines.scrollHeight; };
  const match = node => shown(node, node.textContent.toLowerCase().includes(filter.value.toLowerCase()));

  function lineNode(line) {
    const m = which === "journal" ? JOURNAL.exec(line) : null;
    const node = m
      ? el("li.event", {title: m[1]}, el("time", m[2]), " ", el("span.step", m[3] ? Number(m[3]).toLocaleString("en-US") : ""), " ",
           el("b", {"data-event": m[4]}, m[4]), " ", el("span", m[5]))
      : el("li", line || " ");
    match(node);
    return node;
  }

  function begin() {
    which = select.value;
    file = new RunFile(name, which, FIRST_BYTES);
    lines.replaceChildren();
    refresh();
  }

  async function refresh() {
    again = true;
    if (busy || closed) return;
    busy = true;
    again = false;
    try {
      const reading = file, {lines: added, anew, more} = await reading.read();
      if (reading !== file || closed) return;
      if (anew) lines.replaceChildren();
      again ||= more;
      if (added.length) {
        lines.append(...added.slice(-MAX_LINES).map(lineNode));
        while (lines.childElementCount > MAX_LINES) lines.firstChild.remove();
        if (follow.checked) toEnd();
      }
      shown(none, !lines.childElementCount);
      failures = 0;
    } catch (error) {
      shown(none, true);
      text(none, error.message);
      clearTimeout(retry);
      retry = setTimeout(refresh, Math.min(200 * 2 ** failures++, 10000));
    } finally {
      busy = false;
      if (again && !closed) refresh();
    }
  }

  async function loadNames() {
    const list = await ask("logs", {run: name});
    const now = select.value;
    select.replaceChildren(...list.map(log => el("option", {value: log}, log)));
    select.value = list.includes(now) ? now : "journal";
  }
  loadNames().catch(() => {});
  begin();
  timer = setInterval(() => { if (which !== "journal") refresh(); }, 1000);

  let journal = -1;
  return {
    keys: {"/": () => filter.focus()},
    update(view) {
      if (view.journal !== journal && which === "journal") refresh();
      journal = view.journal;
      attribute(lines, "data-live", view.live);
    },
    close() {
      closed = true;
      clearInterval(timer);
      clearTimeout(retry);
    },
  };
}
