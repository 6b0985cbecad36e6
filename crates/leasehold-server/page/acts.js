// What an operator does: looked at first, then confirmed, and undone where that is possible.

import { asked } from "./address.js";
import { call, mayAct } from "./api.js";
import { now, span, time } from "./clock.js";
import { $, el, fill, own } from "./dom.js";
import { showLogIn } from "./login.js";
import { model } from "./model.js";

const SHOWN_MAX = 200;
const path = (what) => "/api/v1/pools/" + encodeURIComponent(asked.pool) + "/" + what;

function title(body) {
  return [body.act, body.resource, body.act === "pin" ? "to " + body.member : body.member].filter(Boolean).join(" ");
}

// Shows what would move, and asks.
export async function act(body, told = "") {
  const dialog = $("act");
  const heading = el("h2", { id: "act-title" }, own(title(body)));
  fill(dialog, heading, el("p", { role: "status" }, "Looking at what would move…"));
  if (!dialog.open) dialog.showModal();
  let preview;
  try {
    preview = await call("POST", path("plan"), body);
  } catch (error) {
    return refused(dialog, heading, body, error);
  }
  const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const go = el("button", { type: "button", class: "main", id: "confirm", disabled: preview.already, onclick: () => perform(dialog, heading, body, preview.basis, go) }, "Yes, " + body.act);
  fill(dialog, heading, told ? el("p", { class: "error", role: "alert" }, told) : "", el("p", {}, own(preview.sentence), "."),
    preview.already ? el("p", {}, "It is so already; there is nothing to do.") : "", preview.note ? el("p", {}, own(preview.note), ".") : "",
    ...moves(preview.shifts), el("div", { class: "buttons" }, cancel, go));
  (preview.already ? cancel : go).focus();
}

function moves(shifts) {
  const lines = [
    ...shifts.moves.map((step) => [own(step.resource), " moves from ", own(step.from), " to ", own(step.to), step.why ? " (" + step.why + ")" : ""]),
    ...shifts.taken.map((step) => [own(step.resource), " is taken by ", own(step.to)]),
    ...shifts.dropped.map((step) => [own(step.resource), " is let go by ", own(step.from), step.why ? " (" + step.why + ")" : ""]),
    ...shifts.unowned.map((step) => [own(step.resource), " would be owned by nobody", step.why ? " (" + step.why + ")" : ""]),
  ];
  const total = shifts.moves.length + shifts.taken.length + shifts.dropped.length;
  const more = lines.length > SHOWN_MAX ? el("li", {}, "and " + (lines.length - SHOWN_MAX) + " more") : "";
  const list = lines.length ? el("ul", { class: "moves", tabindex: "0", "aria-label": "What would move" }, ...lines.slice(0, SHOWN_MAX).map((line) => el("li", {}, ...line)), more) : "";
  const loads = shifts.members.filter((member) => member.holds !== member.would_hold);
  const table = loads.length ? el("table", {}, el("thead", {}, el("tr", {}, ...["Member", "Holds", "Would hold"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...loads.slice(0, 40).map((member) => el("tr", {}, el("td", {}, own(member.name)), el("td", { class: "number" }, String(member.holds)), el("td", { class: "number" }, String(member.would_hold)))))) : "";
  return [el("p", { id: "total" }, total ? total + " of " + shifts.resources + " resources would change hands." : "Nothing moves."), list, table];
}

async function perform(dialog, heading, body, basis, go) {
  go.disabled = true;
  try {
    const done = await call("POST", path("act"), { ...body, basis });
    dialog.close();
    announce(done, body);
  } catch (error) {
    // Somebody else was there: what would move is another now.
    if (error.word === "changed_meanwhile") return act(body, "Somebody else changed this since you looked. This is what would move now.");
    refused(dialog, heading, body, error);
  }
}

function refused(dialog, heading, body, error) {
  if (error.status === 401) {
    dialog.close();
    return showLogIn("Your log-in has ended, and nothing was done. Log in to go on.", () => act(body));
  }
  const again = el("button", { type: "button", class: "main", onclick: () => act(body) }, "Look again");
  fill(dialog, heading, el("p", { class: "error", role: "alert" }, error.message), el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => dialog.close() }, "Close"), again));
  again.focus();
}

let fading;
function announce(done, body) {
  const box = $("done");
  const undo = done.undo && !done.already ? el("button", { type: "button", onclick: () => { fill(box); act({ ...body, act: done.undo, member: done.undo === "unpin" ? undefined : body.member }); } }, "Undo: " + done.undo) : "";
  fill(box, el("span", {}, own(done.sentence), done.already ? " (it was so already)" : ""), undo);
  clearTimeout(fading);
  fading = setTimeout(() => fill(box), 15000);
}

// One resource, whole.
export function details(id) {
  const row = model.resources.get(id);
  if (!row) return;
  const dialog = $("details");
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value.flat())];
  const labels = Object.entries(row.labels || {}).map(([key, value]) => key + "=" + value).join(", ");
  const close = () => dialog.close();
  const button = (word, more = {}) => el("button", { type: "button", onclick: () => { close(); act({ act: word, resource: id, ...more }); } }, word);
  const names = [...new Set([...model.members.values()].filter((member) => member.kind === "member").map((member) => member.name))].sort();
  const to = el("select", { "aria-label": "Member to pin to" }, ...names.map((name) => el("option", { value: name }, name)));
  const acts = !mayAct() ? [] : [
    row.pinned ? button("unpin") : names.length ? el("span", {}, el("button", { type: "button", onclick: () => { close(); act({ act: "pin", resource: id, member: to.value }); } }, "pin"), " to ", to) : "",
    row.state === "paused" ? button("resume") : button("pause"), row.owner !== null ? button("revoke") : "",
    id === "leader" && model.resources.size === 1 ? el("button", { type: "button", onclick: () => { close(); act({ act: "resign" }); } }, "resign") : "",
  ];
  const past = [...row.bars].reverse().map((bar) => el("tr", {}, el("td", {}, own(bar.owner)), el("td", { class: "number" }, String(bar.token)),
    el("td", { class: "number" }, time(bar.from)), el("td", { class: "number" }, bar.until === null ? "now" : time(bar.until)), el("td", {}, bar.end || "")));
  fill(dialog, el("h2", { id: "details-title" }, own(id)),
    el("dl", {}, ...fact("Name", own(row.name || "–")), ...fact("Owner", own(row.owner === null ? "nobody" : row.owner), row.member ? [" (", own(row.member), ")"] : ""),
      ...fact("Token", row.token === null ? "none yet" : String(row.token)), ...fact("State", row.state + (row.since === null ? "" : ", for " + span(now() - row.since))),
      ...(row.to ? fact("Goes to", own(row.to)) : []), ...(row.why ? fact("Why", own(row.why)) : []), ...(row.pinned ? fact("Pinned to", own(row.pinned)) : []),
      ...fact("Weight", String(row.weight)), ...fact("Labels", own(labels || "–"))),
    past.length ? el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tenures" }, el("table", {}, el("thead", {}, el("tr", {}, ...["Owner", "Token", "From", "Until", "Ended"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...past))) : "",
    el("div", { class: "buttons" }, ...acts, el("button", { type: "button", class: "main", onclick: close }, "Close")));
  dialog.showModal();
}
