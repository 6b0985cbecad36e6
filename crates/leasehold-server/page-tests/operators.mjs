// The stories of operators: a control plane with keys and real members, seen and steered in a real browser.

import assert from "node:assert/strict";
import { accessible, ask, directory, kill, key, member, page, picture, serve, start, until } from "./stage.mjs";

const DELIBERATE = /Failed to load resource|net::ERR_|ERR_CONNECTION/;
const RESOURCES = ["crane-1", "crane-2", "crane-3", "crane-4", "gate-1", "gate-2", "gate-3", "gate-4", "pump-1", "pump-2", "pump-3", "pump-4"];
const world = {};

const owners = (view) => view.$$eval("#rows .row:not([hidden])", (rows) => Object.fromEntries(rows.map((row) => [row.dataset.id, row.querySelector(".owner").textContent])));
const live = (view) => until("the page is live", () => view.$eval("#link", (link) => link.classList.contains("live")));

async function logIn(view, secret) {
  await view.waitForSelector("#login[open] input");
  await view.fill("#key", secret);
  await view.press("#key", "Enter");
}

export const stories = {
  async "logs in with a key, and a wrong one is refused with a sentence"() {
    world.database = "sqlite:" + directory + "/keys.db";
    world.key = key(world.database, "operator", "<script>alert(1)</script>");
    world.reader = key(world.database, "read", "onlooker");
    world.members = key(world.database, "member", "members");
    Object.assign(world, await serve("serve", world.database));
    world.cast = Object.fromEntries(["anna", "bert", "cleo"].map((name) => [name, member(name, world.url, world.members, RESOURCES)]));
    const view = (world.view = await page());
    view.expected = DELIBERATE;
    await view.goto(world.url + "/?span=1");
    await logIn(view, "lh_000000000000_" + "0".repeat(64));
    await view.waitForFunction(() => /not known/.test(document.querySelector("#login .error").textContent));
    await logIn(view, world.key);
    await live(view);
    const [cookie] = await view.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
    assert.equal(await view.evaluate(() => document.cookie), "", "scripts cannot read it");
    assert.match(await view.textContent("#who"), /<script>alert\(1\)<\/script> \(operator\)/);
    view.expected = /^$/;
  },

  async "shows who owns what"() {
    const { view } = world;
    const shared = async () => {
      const all = Object.values(await owners(view));
      return all.length === 12 && ["anna", "bert", "cleo"].every((name) => all.filter((owner) => owner === name).length === 4);
    };
    await until("each has four", shared);
    await until("tenures are drawn", async () => (await view.$$(".bar")).length >= 12);
    await until("beats are heard", () => view.$$eval("#members tbody tr", (rows) => rows.length === 3 && rows.every((row) => /\d+ s ago/.test(row.textContent))));
    assert.match(await view.textContent("#members"), /0\.1\.0/, "the version of the program");
    await accessible(view, "light");
    await picture(view, "page");
  },

  async "sees a member die and its work move, live"() {
    const { view } = world;
    await kill(world.cast.anna);
    await until("the others have its work", async () => {
      const all = Object.values(await owners(view));
      return all.length === 12 && all.every((owner) => ["bert", "cleo"].includes(owner));
    });
    await until("the feed tells it", async () => /anna fell silent/.test(await view.textContent("#feed")));
    await until("it is gone", async () => !/anna/.test(await view.textContent("#members")));
    const newest = () => view.$$eval("#rows .row:not([hidden])", (rows) => rows.map((row) => [...row.querySelectorAll(".bar")].at(-1)?.dataset.owner));
    await until("the tenures of the two are drawn", async () => new Set(await newest()).size === 2);
    await until("gaps are seen", () => view.$$eval("#rows .row:not([hidden])", (rows) => rows.some((row) => row.querySelectorAll(".bar").length >= 2)));
    assert.equal(await view.$$eval(".bar.twice", (bars) => bars.length), 0, "nothing was held by two");
    await picture(view, "failover");
  },

  async "drains a member after a look at what would move, and takes it back"() {
    const { view } = world;
    await view.click("button[aria-label='drain bert']");
    await view.waitForSelector("#confirm:not([disabled])");
    assert.match(await view.textContent("#act"), /bert hands off what it holds and gets nothing/);
    assert.match(await view.textContent("#total"), /6 of 12 resources would change hands/);
    await accessible(view, "the preview");
    await picture(view, "drain");
    assert.ok(Object.values(await owners(view)).includes("bert"), "nothing happens before it is confirmed");
    await view.click("#confirm");
    await until("all is with cleo", async () => Object.values(await owners(view)).every((owner) => owner === "cleo"));
    await until("the ledger says who", async () => /drain: bert, by <script>alert\(1\)<\/script> \(key [0-9a-f]+\)/.test(await view.textContent("#feed")));
    await view.click("#done button");
    await view.waitForSelector("#confirm:not([disabled])");
    await view.click("#confirm");
    await until("it takes part again", async () => Object.values(await owners(view)).filter((owner) => owner === "bert").length === 6);
  },

  async "pins, pauses and revokes a resource"() {
    const { view } = world;
    const confirm = async () => { await view.waitForSelector("#confirm:not([disabled])"); await view.click("#confirm"); await view.waitForSelector("#act:not([open])", { state: "attached" }); };
    const mine = Object.entries(await owners(view)).find(([, owner]) => owner === "bert")[0];
    const row = `#rows .row[data-id='${mine}']:not([hidden])`;
    await view.click(row);
    await view.selectOption("#details select", "cleo");
    await view.click("#details button:text-is('pin')");
    await confirm();
    await until("it goes to cleo", async () => (await owners(view))[mine] === "cleo");
    await view.click(row);
    await view.click("#details button:text-is('pause')");
    await confirm();
    await until("nobody has it", async () => (await owners(view))[mine] === "nobody");
    await view.click(row);
    await view.click("#details button:text-is('resume')");
    await confirm();
    const token = () => view.textContent(row + " .token").then(Number);
    await until("it is back", async () => (await owners(view))[mine] === "cleo");
    const before = await token();
    await view.click(row);
    await view.click("#details button:text-is('revoke')");
    await confirm();
    await until("a new term", async () => (await token()) > before && (await owners(view))[mine] === "cleo");
    const events = await ask(world.url, "POST", "/api/v1/store/ledger", { pool: "harbour", after: 0, limit: 10000 }, world.key);
    const marked = events.body.value.map((one) => one.entry).filter((entry) => entry.event === "marked").map((entry) => entry.detail.split(",")[0]);
    assert.deepEqual(marked.slice(-4), [`pin: ${mine} to cleo`, `pause: ${mine}`, `pause undone: ${mine}`, `revoke: ${mine}`]);
  },

  async "tells the slower of two operators who drain at once"() {
    const [one, two] = [world.view, await page()];
    await two.goto(world.url + "/");
    await logIn(two, world.key);
    await live(two);
    two.expected = DELIBERATE;
    await two.click("button[aria-label='drain bert']");
    await two.waitForSelector("#confirm:not([disabled])");
    await one.click("button[aria-label='drain bert']");
    await one.waitForSelector("#confirm:not([disabled])");
    await one.click("#confirm");
    await until("drained", async () => /drained/.test(await one.textContent("#members")));
    await two.click("#confirm");
    await two.waitForFunction(() => /Somebody else changed this since you looked/.test(document.querySelector("#act").textContent));
    assert.match(await two.textContent("#act"), /It is so already/);
    assert.ok(await two.isDisabled("#confirm"));
    assert.deepEqual(two.wrong, []);
    await two.context().close();
    assert.equal((await ask(world.url, "POST", "/api/v1/pools/harbour/act", { act: "undrain", member: "bert" }, world.key)).status, 200);
  },

  async "lets nobody act who may only look, nor another site's page"() {
    const view = await page();
    await view.goto(world.url + "/");
    await logIn(view, world.reader);
    await live(view);
    await view.waitForSelector("#members tbody tr");
    assert.equal((await view.$$("#members td.acts button")).length, 0);
    view.expected = DELIBERATE;
    const act = { act: "drain", member: "bert" };
    const sent = (csrf) => view.evaluate(async ([body, csrf]) => (await fetch("/api/v1/pools/harbour/act", { method: "POST", body: JSON.stringify(body), headers: csrf ? { "x-leasehold-csrf": csrf } : {} })).status, [act, csrf]);
    assert.equal(await sent(undefined), 403, "a cookie alone changes nothing");
    const csrf = await view.evaluate(async () => (await (await fetch("/api/v1/auth/session")).json()).csrf);
    assert.equal(await sent(csrf), 403, "the role read changes nothing");
    // The same with a good cookie and a good secret, but from elsewhere.
    const cookies = await world.view.context().cookies();
    const theirs = await world.view.evaluate(async () => (await (await fetch("/api/v1/auth/session")).json()).csrf);
    const headers = { cookie: cookies[0].name + "=" + cookies[0].value, "x-leasehold-csrf": theirs, origin: "http://evil.example" };
    const foreign = await fetch(world.url + "/api/v1/pools/harbour/act", { method: "POST", headers, body: JSON.stringify(act) });
    assert.equal(foreign.status, 403);
    assert.doesNotMatch(await world.view.textContent("#members"), /drained/);
    assert.deepEqual(view.wrong, []);
    await view.context().close();
  },

  async "asks for the key again when a log-in ends in the middle of an act, and has done nothing"() {
    const short = await serve("short", world.database, ["--log-in-lasts", "6s"]);
    const view = await page();
    view.expected = DELIBERATE;
    await view.goto(short.url + "/?pool=harbour");
    await logIn(view, world.key);
    await live(view);
    await view.click("button[aria-label='cordon cleo']");
    await view.waitForSelector("#confirm:not([disabled])");
    await view.waitForSelector("#login[open]", { timeout: 60000 });
    const marks = async () => (await ask(world.url, "POST", "/api/v1/store/marks", { pool: "harbour", since: "0" }, world.key)).body.value.items.filter((mark) => mark.kind === "cordon" && mark.value !== null);
    assert.deepEqual(await marks(), []);
    await logIn(view, world.key);
    await until("the look is still there", () => view.isVisible("#confirm"));
    await view.click("#confirm");
    await until("it is done", async () => (await marks()).length === 1);
    assert.equal((await ask(world.url, "POST", "/api/v1/pools/harbour/act", { act: "uncordon", member: "cleo" }, world.key)).status, 200);
    assert.deepEqual(view.wrong, []);
    await view.context().close();
    await kill(short.child);
  },

  async "says so when the connection is lost, and goes on when it is back"() {
    const { view } = world;
    view.expected = DELIBERATE;
    process.kill(world.child.pid, "SIGSTOP");
    await until("it says so", async () => /Connection lost: this is \d+ s old/.test(await view.textContent("#link")));
    assert.ok(await view.$eval("#main", (main) => main.classList.contains("stale")));
    const beats = () => view.$$eval("#members tbody td:nth-child(5)", (cells) => cells.map((cell) => cell.textContent).join());
    const before = await beats();
    await until("it says how old it is", async () => /this is ([8-9]|\d\d+) s old/.test(await view.textContent("#link")));
    assert.equal(await beats(), before, "nobody is late because nothing is heard");
    await picture(view, "lost");
    process.kill(world.child.pid, "SIGCONT");
    await live(view);
    await kill(world.child);
    await until("it says so again", async () => /Connection lost/.test(await view.textContent("#link")));
    Object.assign(world, await serve("again", world.database, [], new URL(world.url).host));
    await live(view);
    assert.ok(!(await view.$eval("#main", (main) => main.classList.contains("stale"))));
    await until("everything is there", async () => Object.keys(await owners(view)).length === 12);
    view.expected = /^$/;
  },

  async "logs out, and the cookie opens nothing any more"() {
    const { view } = world;
    view.expected = DELIBERATE;
    const [cookie] = await view.context().cookies();
    await view.click("#who button");
    await view.waitForSelector("#login[open]");
    assert.equal((await view.$$("#members tbody tr")).length, 0);
    assert.deepEqual(await view.context().cookies(), []);
    const answer = await fetch(world.url + "/api/v1/pools", { headers: { cookie: cookie.name + "=" + cookie.value } });
    assert.equal(answer.status, 401);
    assert.deepEqual(view.wrong, []);
    await view.context().close();
    for (const child of Object.values(world.cast)) await kill(child, "SIGTERM");
    await kill(world.child, "SIGTERM");
  },

  async "has the leader of an election resign, and the demo serves the same page"() {
    const { url, child } = await serve("election", "sqlite:" + directory + "/election.db");
    const candidates = ["lead-1", "lead-2"].map((name) => start(name, ["elect", "--store", url, "--key", "/nightly", "--name", name, "--ttl", "3s", "--", "sleep", "1000"]));
    const view = await page();
    await until("somebody leads", async () => (await ask(url, "GET", "/api/v1/health/pools")).body.some((pool) => pool.owned === 1 && pool.members === 2));
    await view.goto(url + "/");
    await live(view);
    await until("the seat is shown", async () => /lead-/.test((await owners(view)).leader || ""));
    const before = (await owners(view)).leader;
    await view.click("#rows .row[data-id='leader']");
    await view.click("#details button:text-is('resign')");
    await view.waitForSelector("#confirm:not([disabled])");
    await view.click("#confirm");
    await until("the other leads", async () => /lead-/.test((await owners(view)).leader) && (await owners(view)).leader !== before);
    await until("the first is a candidate again", async () => !/drained/.test(await view.textContent("#members")));
    // A page whose server is gone would go on asking for it, until the demo is up.
    await view.goto("about:blank");
    for (const candidate of candidates) await kill(candidate, "SIGTERM");
    await kill(child, "SIGTERM");
    const demo = start("demo", ["demo", "--plain"]);
    const address = await until("the demo says where", () => demo.log().match(/http:\/\/127\.0\.0\.1:\d+\//)?.[0]);
    await view.goto(address);
    await live(view);
    await until("its cranes are there", async () => "crane-1" in (await owners(view)));
    assert.deepEqual(view.wrong, []);
    await view.context().close();
    await kill(demo, "SIGTERM");
  },
};
