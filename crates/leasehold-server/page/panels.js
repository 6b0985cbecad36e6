// Pools, members, what happened, and the figures at the top.

import { ask, asked } from "./address.js";
import { mayAct } from "./api.js";
import { now, span, time } from "./clock.js";
import { $, el, fill, own, say } from "./dom.js";
import { model, rows } from "./model.js";
import { overlap } from "./overlap.js";

export function pools(standings) {
  const head = el("tr", {}, ...["Pool", "Members", "Resources", "Unowned"].map((text) => el("th", { scope: "col" }, text)));
  const body = standings.map((pool) => {
    const unowned = Math.max(0, pool.resources - pool.owned - pool.paused);
    const go = el("button", { class: "plain", type: "button", "aria-current": pool.pool === asked.pool ? "true" : undefined,
      onclick: () => ask({ pool: pool.pool, owner: "" }, { replace: false }) }, own(pool.pool));
    return el("tr", {}, el("td", {}, go, pool.frozen ? el("span", { class: "tag bad" }, "frozen") : ""),
      el("td", { class: "number" }, String(pool.members)), el("td", { class: "number" }, String(pool.resources)),
      el("td", { class: unowned ? "number late" : "number" }, String(unowned)));
  });
  fill($("pools"), standings.length ? el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)) : el("p", {}, "There are no pools yet."));
}

function level(value, text, tone = "") {
  return el("div", { class: "level " + tone }, el("b", {}, value), el("span", {}, text));
}

const seconds = (ms) => (ms < 1000 ? ms + " ms" : (ms / 1000).toFixed(1) + " s");

function margin() {
  const left = [...model.members.values()].filter((member) => member.heard !== null).map((member) => 1 - (now() - member.heard) / member.ttl_ms);
  return left.length ? Math.round(100 * Math.max(0, Math.min(...left))) + " %" : "–";
}

export function levels() {
  const { head } = model;
  if (head.total === undefined) return;
  const worst = [...model.resources.values()].filter((row) => row.owner === null && row.state !== "paused" && row.since !== null)
    .reduce((longest, row) => Math.max(longest, now() - row.since), 0);
  const twice = overlap(model.resources, now() - Number(asked.span) * 60000);
  fill($("levels"),
    level(String(head.total), "resources"),
    level(String(head.owned), "owned"),
    level(String(head.unowned), head.unowned ? "unowned, for " + span(worst) + " at most" : "unowned", head.unowned ? "bad" : ""),
    level(String(model.members.size), "members"),
    level(head.handoff_ms === null ? "–" : seconds(head.handoff_ms), "slowest of the last handoffs"),
    level(head.failover_ms === null ? "–" : seconds(head.failover_ms), "slowest of the last failovers"),
    level(margin(), "of its TTL had the most silent member left"),
    level(String(head.imbalance), "off the fair share at most", head.imbalance > 1 ? "warn" : ""),
    level((twice / 1000).toFixed(1) + " s", "held by two at once", twice > 0 ? "bad" : ""));
  const trouble = head.frozen ? "The store is frozen: it may have forgotten something, and nothing changes hands until its holders had time to say what they hold."
    : head.trouble ? "The store does not answer: " + head.trouble : "";
  $("trouble").hidden = !trouble;
  say($("trouble"), trouble);
}

// By the member's id: its row, what that shows, and the cell that changes all the time.
const made = new Map();
const { compare } = new Intl.Collator();

// A member whose row does not show it any more gets a new one; the table is made anew only if others are there than before.
export function members(act) {
  const all = [...model.members.values()].sort((a, b) => compare(a.name, b.name) || (a.id < b.id ? -1 : 1));
  const shape = JSON.stringify([mayAct(), all.map((member) => member.id)]);
  if (members.shape !== shape) {
    members.shape = shape;
    made.clear();
    const titles = ["Member", "Holds", "Share", "Version", "Last beat"].map((text) => el("th", { scope: "col" }, text));
    const head = el("tr", {}, ...titles, mayAct() ? el("th", { scope: "col" }, el("span", {}, "Acts")) : "");
    fill($("members"), all.length ? el("table", {}, el("thead", {}, head), el("tbody", {}, ...all.map((member) => row(member, act)))) : el("p", {}, "Nobody is there."));
    owners(all);
  }
  for (const member of all) {
    const before = made.get(member.id);
    if (before.shows !== shown(member)) before.element.replaceWith(row(member, act));
    const { cell } = made.get(member.id);
    const silent = member.heard === null ? undefined : now() - member.heard;
    say(cell, silent === undefined ? "–" : span(silent) + " ago");
    cell.className = silent > member.ttl_ms * 0.6 ? "number late" : "number";
  }
}

const shown = ({ heard, ...rest }) => JSON.stringify(rest);

function row(member, act) {
  const [least, most] = member.share || [0, 0];
  const share = member.share === null ? "–" : least === most ? String(least) : least + "–" + most;
  const tags = member.state.map((word) => el("span", { class: "tag warn" }, word));
  if (member.kind === "rest") tags.push(el("span", { class: "tag soft" }, "REST"));
  const beat = el("td", { class: "number" });
  const owns = el("button", { class: "plain", type: "button", title: "Show what it owns", onclick: () => ask({ owner: asked.owner === member.name ? "" : member.name }) }, own(member.name));
  const button = (word) => el("button", { type: "button", "aria-label": word + " " + member.name, onclick: () => act({ act: word, member: member.name }) }, word);
  const drained = member.state.includes("drained");
  const cordoned = member.state.includes("cordoned");
  const acts = member.kind === "rest" ? "" : [button(drained ? "undrain" : "drain"), button(cordoned ? "uncordon" : "cordon")];
  const element = el("tr", {}, el("td", { title: member.id }, owns, " ", ...tags),
    el("td", { class: "number" }, el("progress", { max: String(Math.max(most, member.held, 1)), value: String(member.held), "aria-label": member.name + " holds " + member.held + " of " + share }), " " + member.held),
    el("td", { class: "number" }, share + (member.capacity === null ? "" : " of " + member.capacity)), el("td", {}, member.version || "–"), beat,
    mayAct() ? el("td", { class: "acts" }, acts) : "");
  made.set(member.id, { element, cell: beat, shows: shown(member) });
  return element;
}

// Whoever may be chosen as an owner: members, and whoever else owns something.
function owners(all) {
  const names = [...new Set(all.map((member) => member.name))];
  if (asked.owner && !names.includes(asked.owner)) names.push(asked.owner);
  const select = $("owner");
  fill(select, el("option", { value: "" }, "any"), ...names.sort().map((name) => el("option", { value: name }, name)));
  select.value = asked.owner;
}

const EVENTS = { joined: "joined", left: "left", acquired: "took", taken_over: "took over", released: "gave back", expired: "fell silent", lost: "lost", revoked: "lets go of",
  started: "started", stopped: "stopped", frozen: "found the store frozen", thawed: "put the store back into use", marked: "was told", renew_failed: "could not renew",
  acquire_failed: "could not take", reasserted: "said again what it holds", refused: "was refused", quarantined: "set aside" };

function what(row) {
  if (row.event === "expired") return [own(row.other || row.name), " fell silent", row.resource ? [": ", own(row.resource)] : ""];
  if (row.event === "marked") return ["An operator: ", own(row.detail || "")];
  const to = row.other ? [row.event === "taken_over" ? " from " : row.event === "released" ? " for " : ", ", own(row.other)] : "";
  return [own(row.name), " " + (EVENTS[row.event] || row.event), row.resource ? [" ", own(row.resource)] : "", to];
}

export function feed() {
  const newest = model.feed.length ? model.feed[model.feed.length - 1].row : 0;
  const shape = asked.pool + " " + newest + " " + model.feed.length;
  if (feed.shape === shape) return;
  feed.shape = shape;
  const body = model.feed.slice(-120).reverse().map((row) => el("tr", {}, el("td", { class: "number" }, time(row.at)), el("td", {}, ...what(row).flat(3)),
    el("td", { class: "number" }, row.token === undefined ? "" : "token " + row.token), el("td", {}, row.event === "marked" || !row.detail ? "" : own(row.detail))));
  const head = el("tr", {}, ...["When", "What", "Token", "Why"].map((text) => el("th", { scope: "col" }, text)));
  fill($("feed"), body.length ? el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)) : el("p", {}, "Nothing yet."));
}

export function matches() {
  const found = rows().length;
  const all = model.resources.size;
  say($("matches"), found === all ? all + " resources" : found + " of " + all + " resources");
}
