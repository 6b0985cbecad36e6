// The resources: as many rows as fit are there, whatever number there is, and each is used again for another.

import { asked } from "./address.js";
import { now, span, time } from "./clock.js";
import { $, colour, el, own, say } from "./dom.js";
import { rows } from "./model.js";

const AHEAD = 6;
const frame = $("rows");
const space = $("space");
const made = [];
let at = 0;
let height = 44;
let open = () => {};

export function start(onOpen) {
  open = onOpen;
  frame.addEventListener("scroll", () => draw(), { passive: true });
  frame.addEventListener("keydown", move);
  new ResizeObserver(() => draw()).observe(frame);
}

function row() {
  const parts = {
    id: el("span", { role: "gridcell", class: "id" }), owner: el("span", { role: "gridcell", class: "owner" }),
    token: el("span", { role: "gridcell", class: "token number" }), age: el("span", { role: "gridcell", class: "age number" }),
    state: el("span", { role: "gridcell", class: "state" }), lane: el("span", { role: "gridcell", class: "lane" }),
  };
  const element = el("div", { role: "row", class: "row", tabindex: "-1" }, ...Object.values(parts));
  element.addEventListener("click", () => open(element.dataset.id));
  frame.append(element);
  return { element, parts, bars: null, shown: null };
}

export function draw() {
  const all = rows();
  height = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 44;
  const total = all.length * height;
  if (space.dataset.total !== String(total)) {
    space.dataset.total = String(total);
    space.style.height = total + "px";
  }
  at = Math.min(at, Math.max(0, all.length - 1));
  const first = Math.max(0, Math.floor(frame.scrollTop / height) - AHEAD);
  const count = Math.min(all.length - first, Math.ceil(frame.clientHeight / height) + 2 * AHEAD);
  $("grid").setAttribute("aria-rowcount", String(all.length + 1));
  while (made.length < count) made.push(row());
  made.forEach((one, place) => {
    const number = first + place;
    const is = place < count ? all[number] : undefined;
    one.element.hidden = !is;
    if (is) show(one, is, number);
  });
}

function show(one, is, number) {
  const { element, parts } = one;
  const y = number * height;
  if (one.y !== y) { one.y = y; element.style.transform = "translateY(" + y + "px)"; }
  element.setAttribute("aria-rowindex", String(number + 2));
  element.tabIndex = number === at ? 0 : -1;
  element.dataset.number = String(number);
  if (one.shown !== is) {
    one.shown = is;
    element.dataset.id = is.id;
    parts.id.replaceChildren(own(is.id), is.name ? el("small", {}, own(is.name)) : "");
    if (is.owner === null) parts.owner.replaceChildren(el("span", { class: is.state === "paused" ? "" : "unowned" }, "nobody"));
    else parts.owner.replaceChildren(own(is.owner));
    say(parts.token, is.token === null ? "–" : String(is.token));
    say(parts.state, words(is));
    parts.state.title = is.why || "";
    one.bars = null;
  }
  lane(one, is);
}

function words(is) {
  if (is.state === "moving") return "to " + is.to;
  if (is.state === "free") return is.to ? "to " + is.to : "free";
  return is.state + (is.pinned ? ", pinned" : "");
}

// Bars on the axis from some minutes ago to now.
function lane(one, is) {
  const end = now();
  if (end === undefined) return;
  const from = end - Number(asked.span) * 60000;
  say(one.parts.age, is.since === null ? "–" : span(end - is.since));
  const seen = is.bars.filter((bar) => (bar.until === null ? end : bar.until) > from);
  if (one.bars === null || one.bars.length !== seen.length) {
    one.bars = seen.map((bar) => el("span", { class: "bar " + colour(bar.owner), "data-owner": bar.owner }));
    one.known = el("span", { class: "known" });
    one.parts.lane.replaceChildren(one.known, ...one.bars);
    one.parts.lane.classList.toggle("paused", is.state === "paused");
  }
  // From the first tenure on it is known who had it, and when nobody did.
  one.known.style.left = (seen.length ? 100 * Math.max(0, (is.bars[0].from - from) / (end - from)) : 100).toFixed(2) + "%";
  let before = 0;
  const said = [];
  seen.forEach((bar, place) => {
    const until = bar.until === null ? end : bar.until;
    const left = Math.max(0, (bar.from - from) / (end - from));
    const width = Math.max(0, (until - from) / (end - from) - left);
    const shape = one.bars[place];
    shape.style.left = (100 * left).toFixed(2) + "%";
    shape.style.width = (100 * width).toFixed(2) + "%";
    shape.classList.toggle("twice", bar.from < before);
    shape.title = bar.owner + ", token " + bar.token + ", from " + time(bar.from) + (bar.until === null ? "" : " to " + time(bar.until) + " (" + bar.end + ")");
    before = Math.max(before, until);
    said.push(bar.owner);
  });
  const label = said.length ? "held by " + said.slice(-4).join(", then ") : "no tenure in this time";
  if (one.parts.lane.getAttribute("aria-label") !== label) one.parts.lane.setAttribute("aria-label", label);
}

function move(event) {
  const all = rows();
  const page = Math.max(1, Math.floor(frame.clientHeight / height) - 1);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: all.length - 1 }[event.key];
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    if (all[at]) open(all[at].id);
  } else if (to !== undefined && all.length) {
    event.preventDefault();
    focus(Math.min(Math.max(to, 0), all.length - 1));
  }
}

function focus(number) {
  at = number;
  const y = number * height;
  if (y < frame.scrollTop) frame.scrollTop = y;
  else if (y + height > frame.scrollTop + frame.clientHeight) frame.scrollTop = y + height - frame.clientHeight;
  draw();
  made.find((one) => one.element.dataset.number === String(number) && !one.element.hidden)?.element.focus({ preventScroll: true });
}

export function top() {
  at = 0;
  frame.scrollTop = 0;
  draw();
}
