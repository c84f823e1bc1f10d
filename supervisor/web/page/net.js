// The connection to `brood web`: requests with one answer each, and what it pushes.
const waiting = new Map();
const listeners = new Map();
const MAX_PARAMS = 250;
let socket, id = 0, delay = 250, unsent = [];

function emit(name, value) {
  for (const fn of listeners.get(name) ?? []) fn(value);
}

// Calls fn for every push of that name ("list", "run", "hello"), and for "link": whether there is
// a connection; for "stranger" when the server refuses this page's cookie. Returns a function that
// ends it.
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
  if (pairs.length > MAX_PARAMS) return Promise.reject(new Refusal({message: "too many at once"}));
  const number = ++id;
  const text = `${number} ${method} ${new URLSearchParams(pairs)}`;
  return new Promise((resolve, reject) => {
    waiting.set(number, {resolve, reject});
    if (socket?.readyState === WebSocket.OPEN) socket.send(text);
    else unsent.push(text);
  });
}

function take(message) {
  if (message.push) return emit(message.push, message);
  const one = waiting.get(message.id);
  waiting.delete(message.id);
  if (!one) return;
  if (message.error) one.reject(new Refusal(message.error));
  else one.resolve(message.result);
}

// Another server may have this port now: it knows no cookie but its own.
async function askWhoItIs() {
  try {
    if ((await fetch("/", {cache: "no-store"})).status === 403) emit("stranger", true);
  } catch { /* nobody is there yet */ }
}

function lose(wasOpen) {
  emit("link", false);
  if (!wasOpen) askWhoItIs();
  unsent = [];
  for (const one of waiting.values())
    one.reject(new Refusal({message: "the connection to `brood web` is lost"}));
  waiting.clear();
  setTimeout(connect, delay);
  delay = Math.min(delay * 2, 5000);
}

export function connect() {
  let isOpen = false;
  socket = new WebSocket(`ws://${location.host}/live`, "brood");
  socket.onopen = () => {
    isOpen = true;
    delay = 250;
    emit("link", true);
    for (const text of unsent) socket.send(text);
    unsent = [];
  };
  socket.onmessage = event => take(JSON.parse(event.data));
  socket.onclose = () => lose(isOpen);
}
