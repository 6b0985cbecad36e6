// Brings everything together: what is asked for, what is heard, what is drawn.

import { act, details } from "./acts.js";
import { ask, asked, onAsked } from "./address.js";
import { call, logOut, session, whoAmI } from "./api.js";
import { hold, now, silence, span, time } from "./clock.js";
import { $, el, fill, own, say } from "./dom.js";
import * as grid from "./grid.js";
import { deaf, listen } from "./link.js";
import { onLogIn, showLogIn } from "./login.js";
import { asked_anew, clear, model, take } from "./model.js";
import * as panels from "./panels.js";

let listening;
let state = "wait";
let due = false;
let later = false;

// Everything is drawn at most once a frame, however much is heard. A page that nobody sees draws nothing. Who owns what comes first;
// the figures about it, which look at everything, after it is on the screen.
function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

function draw() {
  if (!model.members || now() === undefined) return;
  grid.draw();
  panels.matches();
  panels.feed();
  if (later) return;
  later = true;
  setTimeout(() => {
    later = false;
    panels.levels();
    panels.members(act);
  });
}

function linked(now_, text, status) {
  state = now_;
  const lost = now_ === "lost";
  hold(lost);
  $("main").classList.toggle("stale", lost);
  $("link").className = "link " + ({ live: "live", lost: "lost", refused: "lost" }[now_] || "wait");
  if (!lost) say($("link"), text);
  if (now_ === "refused") {
    if (status === 401) { listening = undefined; showLogIn(text); } else say($("link"), text);
  }
}

// How old what is shown is, for as long as nothing new is heard.
function age() {
  if (state !== "lost") return;
  say($("link"), now() === undefined ? "No connection" : "Connection lost: this is " + span(silence()) + " old, of " + time(now()));
}

function follow() {
  if (!asked.pool || asked.pool === listening) return;
  listening = asked.pool;
  clear();
  panels.members.shape = undefined;
  grid.top();
  document.title = asked.pool + " – Leasehold";
  listen(asked.pool, (change) => { take(change); soon(); }, linked);
}

async function overview() {
  if (session.role === null) return;
  try {
    const standings = await call("GET", "/api/v1/health/pools");
    const names = standings.map((pool) => pool.pool);
    if (asked.pool && !names.includes(asked.pool)) names.push(asked.pool);
    if ($("pool").dataset.names !== names.join("\n")) {
      $("pool").dataset.names = names.join("\n");
      fill($("pool"), ...names.map((name) => el("option", { value: name }, name)));
    }
    panels.pools(standings);
    if (!asked.pool && names.length) ask({ pool: names[0] });
    $("pool").value = asked.pool;
    if (!names.length) linked("live", "Live");
  } catch (error) {
    if (error.status === 401) { session.role = null; deaf(); listening = undefined; showLogIn(error.message); }
  }
}

function who() {
  const out = el("button", { type: "button", onclick: async () => { try { await logOut(); } catch { /* whoever is not known is out already */ } begin(); } }, "Log out");
  if (session.open) fill($("who"), "no keys yet: everybody on this machine may do anything");
  else if (session.role) fill($("who"), own(session.name || "key " + session.key), " (" + session.role + ")", session.csrf ? out : "");
  else fill($("who"));
}

async function begin() {
  deaf();
  listening = undefined;
  try {
    await whoAmI();
  } catch {
    linked("lost", "");
    setTimeout(begin, 2000);
    return;
  }
  who();
  if (session.role === null) {
    clear();
    for (const id of ["levels", "pools", "members", "feed"]) fill($(id));
    grid.top();
    linked("wait", "Not logged in");
    showLogIn();
    return;
  }
  await overview();
  follow();
}

function controls() {
  for (const id of ["q", "owner", "state", "sort", "span", "pool"]) {
    const control = $(id);
    control.value = asked[id];
    control.addEventListener(id === "q" ? "input" : "change", () => ask({ [id]: control.value, ...(id === "pool" ? { owner: "" } : {}) }, { replace: id !== "pool" }));
  }
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  onAsked(() => {
    for (const id of ["q", "owner", "state", "sort", "span", "pool"]) if ($(id).value !== asked[id]) $(id).value = asked[id];
    asked_anew();
    follow();
    grid.top();
    soon();
  });
  addEventListener("keydown", (event) => {
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) || document.querySelector("dialog[open]");
    if (event.key === "/" && !typing) { event.preventDefault(); $("q").focus(); }
  });
}

controls();
grid.start(details);
onLogIn(begin);
setInterval(() => { age(); soon(); }, 1000);
setInterval(overview, 5000);
begin();
