// Elements. What comes from elsewhere only ever becomes text: nothing of it is taken for markup.

export const $ = (id) => document.getElementById(id);

// An element with attributes, properties (`on…` are listeners) and children; `undefined` and "" are no children.
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return made;
}

// Text of people's own, in whatever direction it is written.
export const own = (text) => el("bdi", {}, text);

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
}

// Sets text without touching what is the same: screen readers and selections stay where they are.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A colour for each name, in the order in which names are met: the first twelve have their own.
const colours = new Map();
export function colour(name) {
  if (!colours.has(name)) colours.set(name, "c" + (colours.size % 12));
  return colours.get(name);
}
