// What is typed into the list's filter: words, each of which a run's name, state or tags have, and
// conditions as of `brood runs --where`, "tag=paper state=done env=simple_*".
const FIELDS = {
  name: (s, name) => s.folder ? [name, name.slice(s.folder.length + 1)] : [name],
  state: s => [s.state],
  tag: s => s.tags ?? [],
  env: s => [s.environment],
  algorithm: s => (s.algorithms ?? "").split(", "),
  seed: s => [s.seed],
  folder: s => [s.folder],
};
export const FIELD_NAMES = Object.keys(FIELDS);

const escaped = c => c.replace(/[.+^${}()|\\[\]]/g, "\\$&");
// A pattern as of a shell, which the whole value must match: * and ?.
const patternOf = text => new RegExp(`^${escaped(text).replaceAll("*", ".*").replaceAll("?", ".")}$`, "i");

// {matches(name, summary), why}: why, if it is not "", says what is wrong with the text.
export function parseFilter(text) {
  const tests = [];
  let why = "";
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const [, field, pattern] = /^([a-z]+)=(.*)$/i.exec(word) ?? [];
    if (!field) {
      const part = word.toLowerCase();
      tests.push((name, s) => [name, s?.state, s?.environment, s?.algorithms, s?.note, ...(s?.tags ?? [])].some(v => v?.toLowerCase().includes(part)));
    } else if (!Object.hasOwn(FIELDS, field.toLowerCase())) {
      why = `There is no field '${field}': ${FIELD_NAMES.join(", ")}.`;
    } else if (pattern) { // otherwise it is being typed
      const has = FIELDS[field.toLowerCase()], wanted = patternOf(pattern);
      tests.push((name, s) => s && has(s, name).some(v => v !== null && v !== undefined && wanted.test(String(v))));
    }
  }
  return {why, matches: (name, s) => !why && tests.every(test => test(name, s))};
}
