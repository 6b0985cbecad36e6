// What is known of the pool, and which of it is asked for.

import { asked } from "./address.js";

export const model = { head: {}, members: new Map(), resources: new Map(), feed: [], complete: false };
const FEED_MAX = 300;
// Of no more rows than these each is put into its place; of more, all are put in order anew.
const FEW = 50;
let order = null;
let fresh = null;

export function clear() {
  Object.assign(model, { head: {}, members: new Map(), resources: new Map(), feed: [], complete: false });
  order = fresh = null;
}

// A row knows what it is found by.
function findable(row) {
  row.found = [row.id, row.name, row.owner, row.pinned, row.why, ...Object.entries(row.labels || {}).map(([k, v]) => k + "=" + v)]
    .filter(Boolean).join("\n").toLowerCase();
  return row;
}

export function take(change) {
  if (change.whole === "first" || change.whole === "both") {
    // A whole picture takes the place of the one before when it is complete.
    fresh = { members: new Map(), resources: new Map() };
    model.feed = [];
  }
  const into = fresh || model;
  const few = order !== null && !fresh && change.resources.length <= FEW && !change.resources_gone.length;
  for (const row of change.members) into.members.set(row.id, row);
  for (const id of change.members_gone) into.members.delete(id);
  for (const row of change.resources) into.resources.set(row.id, findable(row));
  for (const id of change.resources_gone) into.resources.delete(id);
  if (change.feed.length) model.feed = model.feed.concat(change.feed).slice(-FEED_MAX);
  model.head = change.head;
  if (fresh && (change.whole === "last" || change.whole === "both" || !model.complete)) {
    model.members = fresh.members;
    model.resources = fresh.resources;
    if (change.whole === "last" || change.whole === "both") { model.complete = true; fresh = null; }
  }
  if (!few || !change.resources.every(place)) order = null;
}

// Puts a row that is new or changed into its place among those that are asked for, which is known where they are in the order of their ids.
function place(row) {
  if (asked.sort in by && asked.sort !== "id") return false;
  let [from, to] = [0, order.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (order[middle].id < row.id) from = middle + 1;
    else to = middle;
  }
  const known = order[from]?.id === row.id ? 1 : 0;
  const wanted = matching();
  if (wanted(row)) order.splice(from, known, row);
  else order.splice(from, known);
  return true;
}

const is = {
  owned: (row) => row.owner !== null,
  unowned: (row) => row.owner === null && row.state !== "paused",
  moving: (row) => row.state === "moving" || (row.owner === null && row.to !== undefined),
  paused: (row) => row.state === "paused",
  pinned: (row) => row.pinned !== undefined,
  revoked: (row) => row.state === "revoked",
  trouble: (row) => row.why !== undefined && row.state !== "paused",
};

const by = {
  id: (a, b) => (a.id < b.id ? -1 : 1),
  owner: (a, b) => (a.owner || "").localeCompare(b.owner || "") || by.id(a, b),
  newest: (a, b) => (b.since || 0) - (a.since || 0) || by.id(a, b),
  state: (a, b) => (a.owner === null ? 0 : 1) - (b.owner === null ? 0 : 1) || a.state.localeCompare(b.state) || by.id(a, b),
};

export const asked_anew = () => { order = null; };

// Whether a row is asked for.
function matching() {
  const words = asked.q.toLowerCase().split(/\s+/).filter(Boolean);
  const state = is[asked.state];
  return (row) => (!asked.owner || row.owner === asked.owner) && (!state || state(row)) && words.every((word) => row.found.includes(word));
}

// The rows that are asked for, in order.
export function rows() {
  if (order) return order;
  order = [...model.resources.values()].filter(matching());
  order.sort(by[asked.sort] || by.id);
  return order;
}
