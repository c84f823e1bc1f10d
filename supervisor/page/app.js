// Where one is, the keyboard, and the connection.
import {connect, on, report, takeToken} from "./net.js";
import {attribute, el, runUrl, shown, text} from "./dom.js";
import {showList} from "./list.js";
import {showRun} from "./run.js";
import {showCompare} from "./compare.js";
import {showStudy} from "./study.js";

const main = document.getElementById("main"), trail = document.getElementById("trail");
const keys = document.getElementById("keys"), link = document.getElementById("link");
let here = null, isReadOnly = false, isStranger = false, wasIn = false;

export const readOnly = () => isReadOnly;

// An address that somebody has typed may have a % that is no escape.
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// What a report shows at first.
const home = !report ? "" : report.names.length > 1 ? `#/compare/${report.names.map(encodeURIComponent).join(",")}`
  : report.names.length ? runUrl(report.names[0]) : `#/study/${encodeURIComponent(report.studies[0])}`;

function route() {
  const [place] = location.hash.split("?"); // behind it: how charts are drawn (look.js)
  const [, kind, name, tab] = (place.length > 2 ? place : home).split("/");
  const decoded = decode(name ?? "");
  here?.close(kind === "run" && decoded);
  if (kind === "run" && name) here = showRun(main, decoded, tab);
  else if (kind === "compare" && name) here = showCompare(main, name.split(",").map(decode));
  else if (kind === "study" && name) here = showStudy(main, decoded);
  else here = showList(main);
  document.title = here.title === "brood" ? "brood" : `${here.title} – brood`;
  trail.replaceChildren(...here.trail.flatMap(([label]) => [el("span.muted", "/"), el("span", label)]));
  if (here.part) requestAnimationFrame(() => here.part.scrollIntoView());
  else window.scrollTo(0, 0);
}

addEventListener("keydown", event => {
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === " " && event.target.closest("button, a, summary, input")) return;
  const fn = event.key === "?" ? () => keys.showModal()
    : event.key === "u" ? () => { location.hash = "#/"; } : here?.keys[event.key];
  if (!fn) return;
  event.preventDefault();
  fn();
});

document.getElementById("help").addEventListener("click", () => keys.showModal());
on("hello", push => {
  isReadOnly = push.read_only;
  shown(document.getElementById("badge"), isReadOnly && !report);
  shown(link, !report);
  text(document.getElementById("host"), report ? `brood report, brood ${report.version}` : push.host);
});
on("list", push => {
  if (push.folders) attribute(document.querySelector(".brand"), "title", push.folders.map(f => f.path).join("\n"));
});
on("link", is => {
  link.classList.toggle("on", is);
  text(link.lastChild, is ? "connected" : "connection lost");
  attribute(link, "title", is ? "connected to brood web" : "brood web does not answer; trying again");
});
// What is shown already stays; a page that never was let in says what to do.
const STRANGER = {
  missing: ["open the address that brood web printed", "This tab does not have the token of `brood web`",
    "Open the address that `brood web` printed, in this tab. It begins with this page's address and ends with the token, "
    + "which is kept for one tab only: a reload keeps it, a new tab needs it again."],
  refused: ["open the address that brood web printed now", "This tab has the token of another `brood web`",
    "`brood web` has begun again since, with another token: open the address that it printed then, in this tab."],
  full: ["too many browsers are connected", "Too many browsers are connected",
    "This page tries again until one of them is closed."],
};
on("stranger", why => {
  const [label, head, advice] = STRANGER[why];
  text(link.lastChild, label);
  attribute(link, "title", advice);
  if (wasIn) return;
  isStranger = true;
  here?.close();
  here = null;
  document.title = "brood";
  trail.replaceChildren();
  main.replaceChildren(el("div.page.stranger", el("h1", head), el("p", advice)));
});
on("link", is => {
  if (!is) return;
  wasIn = true;
  if (isStranger) {
    isStranger = false;
    route();
  }
});
addEventListener("hashchange", () => {
  if (takeToken()) connect();
  if (!isStranger) route();
});
takeToken();
connect();
if (!isStranger) route();
