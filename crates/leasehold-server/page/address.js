// What is looked at lives in the address: it can be kept, sent to others and gone back to.

const DEFAULTS = { pool: "", q: "", owner: "", state: "", sort: "id", span: "5" };
export const asked = { ...DEFAULTS };
const listeners = [];

function read() {
  const given = new URLSearchParams(location.search);
  for (const key of Object.keys(DEFAULTS)) asked[key] = given.get(key) ?? DEFAULTS[key];
}
read();

export function ask(changes, { replace = true } = {}) {
  Object.assign(asked, changes);
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries(asked)) if (value !== DEFAULTS[key]) given.set(key, value);
  const text = given.toString();
  const address = location.pathname + (text ? "?" + text : "");
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  listeners.forEach((listener) => listener());
}

export const onAsked = (listener) => listeners.push(listener);
addEventListener("popstate", () => { read(); listeners.forEach((listener) => listener()); });
