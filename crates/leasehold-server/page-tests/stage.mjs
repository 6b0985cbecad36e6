// What the stories need: private servers and members on loopback, a browser, and patience.

import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const leasehold = process.env.LEASEHOLD;
export const pictures = process.env.PICTURES;
export const directory = mkdtempSync(join(tmpdir(), "leasehold-page-"));
const children = new Set();

export async function until(what, condition, limit = 60000) {
  const end = Date.now() + limit;
  for (;;) {
    let found;
    try { found = await condition(); } catch { found = undefined; }
    if (found) return found;
    if (Date.now() > end) throw new Error("waited in vain: " + what);
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

// Starts a program in a process group of its own; what it says goes to a file.
export function start(name, args, environment = {}) {
  const log = join(directory, name + ".log");
  const out = openSync(log, "a");
  const child = spawn(leasehold, args, { stdio: ["ignore", out, out], env: { ...process.env, ...environment }, detached: true });
  child.log = () => readFileSync(log, "utf8");
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

// Ends a program for certain, and waits until it is gone.
export function kill(child, signal = "SIGKILL") {
  return new Promise((gone) => {
    if (child.exitCode !== null || child.signalCode !== null) return gone();
    child.once("exit", gone);
    child.kill(signal);
  });
}

export async function serve(name, database, more = [], listen = "127.0.0.1:0") {
  const child = start(name, ["serve", "--database", database, "--listen", listen, ...more]);
  const said = child.log().length;
  const url = await until(name + " serves", () => {
    if (child.exitCode !== null) throw new Error(child.log());
    return child.log().slice(said).match(/serving .* at (http:\/\/[0-9.:]+)/)?.[1];
  });
  return { child, url };
}

export function member(name, url, key, resources, ttl = "3s") {
  const args = ["run", "--store", url, "--pool", "harbour", "--name", name, "--ttl", ttl, "--resources", resources.join(","), "--", "sleep", "1000"];
  return start(name, args, key ? { LEASEHOLD_API_KEY: key } : {});
}

export function key(database, role, name) {
  const made = execFileSync(leasehold, ["keys", "create", "--role", role, "--name", name, "--database", database], { encoding: "utf8" });
  return made.match(/lh_[A-Za-z0-9_]+/)[0];
}

export async function ask(url, method, path, body, key) {
  const headers = key ? { authorization: "Bearer " + key } : {};
  const response = await fetch(url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : undefined };
}

const RESOURCES_EACH = 100;

// A member that holds its part and keeps still: it may be silent for ten minutes.
export async function hold(url, number) {
  const id = "node-" + String(number).padStart(3, "0");
  const profile = { name: id, ready: true, settled: true, plan_version: 1, labels: { zone: "z" + (number % 7) }, version: "1.2." + (number % 3) };
  const call = async (name, body) => {
    const answer = await ask(url, "POST", "/api/v1/store/" + name, body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };
  const { value: era } = await call("open", { session: { pool: "many", id: id + "-1", ttl_ms: 600000, profile } });
  const wanted = Array.from({ length: RESOURCES_EACH }, (_, at) => ({ resource: "job-" + String(number * RESOURCES_EACH + at).padStart(5, "0"), floor: 0 }));
  await call("acquire", { session: id + "-1", pulse: { era, number: 1, confirmed: 0 }, wanted });
  return { id: id + "-1", era, call };
}

export const live = (view) => until("the page is live", () => view.$eval("#link", (link) => link.classList.contains("live")));

let browser;
export async function open() {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  return browser.version();
}

// A page that remembers everything that must not be: scripts that fail, policies that are broken, other hosts that are asked.
export async function page(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  const made = await context.newPage();
  const wrong = [];
  made.expected = /^$/;
  made.on("pageerror", (error) => wrong.push("script: " + error.message));
  made.on("console", (message) => { if (["error", "warning"].includes(message.type()) && !made.expected.test(message.text())) wrong.push("console: " + message.text()); });
  made.on("dialog", (dialog) => { wrong.push("dialog: " + dialog.message()); dialog.dismiss(); });
  made.on("request", (request) => { if (!/^(http:\/\/127\.0\.0\.1:\d+\/|data:)/.test(request.url())) wrong.push("another host: " + request.url()); });
  made.wrong = wrong;
  return made;
}

// What an accessibility check finds, of what is serious.
export async function accessible(made, where) {
  const source = readFileSync(process.env.AXE, "utf8");
  // By the debugger, which no policy of the page can refuse.
  const session = await made.context().newCDPSession(made);
  await session.send("Runtime.evaluate", { expression: source });
  const { result } = await session.send("Runtime.evaluate", { expression: "axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations))", awaitPromise: true, returnByValue: true });
  const found = JSON.parse(result.value).filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(found.map((one) => one.id + ": " + one.nodes.slice(0, 3).map((node) => node.html + " " + node.failureSummary).join(" | ")), [], "axe, " + where);
}

export async function picture(made, name) {
  if (pictures) await made.screenshot({ path: join(pictures, name + ".png") });
}

export async function close() {
  if (browser) await browser.close();
  for (const child of [...children]) {
    // A member's children end with it: its deadman sees to that.
    try { process.kill(child.pid, "SIGCONT"); } catch { /* gone */ }
    await kill(child, "SIGTERM").catch(() => {});
  }
  rmSync(directory, { recursive: true, force: true });
}
