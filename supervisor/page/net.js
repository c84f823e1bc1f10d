// The connection to `brood web`: requests with one answer each, and what it pushes. In the file of
// `brood report --html` there is none: the facts in it answer (supervisor/cli/report_html.h).
const inlined = document.getElementById("facts");
export const report = inlined && JSON.parse(inlined.textContent);
const waiting = new Map();
const listeners = new Map();
const REFUSED = 4401, FULL = 4429; // why the server closes a websocket (server.c)
const KEY = "brood-token";
let socket, id = 0, delay = 250, retry = 0, isOpen = false, unsent = [];
let token = stored();

// sessionStorage belongs to this tab and this origin, which has the port: a reload keeps the
// token, and no other program of the machine is sent it. A browser may forbid it; then a reload
// needs the address again.
function stored(value) {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    return sessionStorage.getItem(KEY);
  } catch {
    return value ?? null;
  }
}

// Takes the token out of the address that `brood web` printed, and out of the address bar. Returns
// whether there was one.
export function takeToken() {
  const found = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!found) return false;
  token = stored(found[1]) ?? found[1];
  history.replaceState(null, "", "#/");
  return true;
}

function emit(name, value) {
  for (const fn of listeners.get(name) ?? []) fn(value);
}

// Calls fn for every push of that name ("list", "run", "hello"), and for "link": whether there is
// a connection; for "stranger" if the server does not let this page in, with the reason: "missing"
// or "refused" (the token), "full". Returns a function that ends it.
export function on(name, fn) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(fn);
  return () => listeners.get(name).delete(fn);
}

// What the program refuses: message is its one line.
export class Refusal extends Error {
  constructor(error) {
    super(error.message);
    this.code = error.code;
    this.key = error.key;
  }
}

// params: pairs, or an object; undefined values are left out. Resolves with the result.
export function ask(method, params = {}) {
  const pairs = (Array.isArray(params) ? params : Object.entries(params))
    .filter(([, value]) => value !== undefined && value !== null);
  if (report) return recall(method, new URLSearchParams(pairs));
  const number = ++id;
  const text = `${number} ${method} ${new URLSearchParams(pairs)}`;
  return new Promise((resolve, reject) => {
    waiting.set(number, {resolve, reject});
    if (isOpen) socket.send(text);
    else unsent.push(text);
  });
}

// The answer of a report, which has one for each run or study.
async function recall(method, params) {
  const name = params.get("run") ?? params.get("study");
  if (method === "watch") return emit("run", report.views[name]);
  if (method === "unwatch") return {};
  const answer = report.answers[method]?.[name];
  if (answer === undefined) throw new Refusal({message: `the report has no ${method} of ${name}`, code: 0});
  return answer;
}

function take(message) {
  if (message.push === "hello") open();
  if (message.push) return emit(message.push, message);
  const one = waiting.get(message.id);
  waiting.delete(message.id);
  if (!one) return;
  if (message.error) one.reject(new Refusal(message.error));
  else one.resolve(message.result);
}

// The server has accepted the token.
function open() {
  isOpen = true;
  delay = 250;
  emit("link", true);
  for (const text of unsent) socket.send(text);
  unsent = [];
}

// What was asked for and has no answer will not have one.
function giveUp() {
  isOpen = false;
  unsent = [];
  for (const one of waiting.values())
    one.reject(new Refusal({message: "the connection to `brood web` is lost"}));
  waiting.clear();
}

function lose(why) {
  emit("link", false);
  giveUp();
  if (why === REFUSED) return emit("stranger", "refused"); // another server has this port now
  if (why === FULL) emit("stranger", "full");
  retry = setTimeout(connect, delay);
  delay = Math.min(delay * 2, 5000);
}

// Connects, in place of a connection that there may be, and again whenever it is lost.
export function connect() {
  if (report) {
    emit("hello", {read_only: true});
    return emit("list", {names: report.names, studies: report.studies, runs: report.runs, complete: true});
  }
  clearTimeout(retry);
  if (!token) return emit("stranger", "missing");
  if (socket?.readyState <= WebSocket.OPEN) {
    giveUp();
    socket.close();
  }
  const mine = socket = new WebSocket(`ws://${location.host}/live`, "brood");
  mine.onopen = () => mine.send(`${++id} hello ${new URLSearchParams({token})}`);
  mine.onmessage = event => mine === socket && take(JSON.parse(event.data));
  mine.onclose = event => mine === socket && lose(event.code);
}

// ---- files of a run ----

const MARK = 1024; // bytes that are asked for again, to see whether a file is still the same
const MAX_LINE = 4 << 20, MOST_BYTES = 32 << 20;

// The whole of a file of a run, as bytes. Long ones come in parts.
export async function readWhole(run, file) {
  const parts = [];
  for (let at = 0, size = 1; at < size;) {
    const answer = await fetch(`/file?run=${encodeURIComponent(run)}&name=${encodeURIComponent(file)}`,
      {headers: {authorization: `Bearer ${token}`, range: `bytes=${at}-`}});
    if (answer.status !== 206) throw new Refusal({message: answer.ok ? "it is empty" : (await answer.text()).trim(), code: answer.status});
    parts.push(await answer.arrayBuffer());
    size = Number(answer.headers.get("content-range").split("/")[1]);
    at += parts.at(-1).byteLength;
    if (size > MOST_BYTES) throw new Refusal({message: "it is too large for the page", code: 0});
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// A file of a run that grows. A report has one, its rows.
export class RunFile {
  // file: "metrics/progress.csv", or the name of a log; last: begins so many bytes before its end.
  constructor(run, file, last = 0) {
    Object.assign(this, {run, file, last});
    this.begin();
  }

  begin() {
    this.at = 0; // where it goes on
    this.mark = new Uint8Array(); // the bytes before
    this.rest = ""; // of a line
    this.decoder = new TextDecoder();
  }

  // Resolves with the lines that have been added. anew: they are the first ones of another file, which
  // has taken the place of the one before; more: there are more of them.
  async read() {
    if (report) return this.recall();
    const isFirst = !this.mark.length;
    const answer = await fetch(`/file?run=${encodeURIComponent(this.run)}&name=${encodeURIComponent(this.file)}`, {headers: {
      authorization: `Bearer ${token}`,
      range: isFirst && this.last ? `bytes=-${this.last}` : `bytes=${this.at - this.mark.length}-`}});
    if (!answer.ok && (isFirst || answer.status !== 416))
      throw new Refusal({message: (await answer.text()).trim(), code: answer.status});
    const bytes = new Uint8Array(answer.ok ? await answer.arrayBuffer() : 0);
    if (this.mark.some((byte, i) => byte !== bytes[i])) { // it was cut or replaced
      this.begin();
      return {...await this.read(), anew: true};
    }
    if (!bytes.length) return {lines: []};
    const [, begin, end, size] = /(\d+)-(\d+)\/(\d+)/.exec(answer.headers.get("content-range")).map(Number);
    const lines = (this.rest + this.decoder.decode(bytes.subarray(this.mark.length), {stream: true})).split("\n");
    this.rest = lines.pop();
    if (isFirst && begin) lines.shift(); // the end of a line
    if (this.rest.length > MAX_LINE) {
      lines.push(this.rest);
      this.rest = "";
    }
    this.at = end + 1;
    this.mark = bytes.slice(-MARK);
    return {lines, more: this.at < size};
  }

  recall() {
    const lines = this.at ? [] : report.answers.curves[this.run].split("\n").slice(0, -1);
    this.at = 1;
    return {lines};
  }
}
