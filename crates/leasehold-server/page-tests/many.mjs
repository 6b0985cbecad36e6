// Ten thousand resources and a hundred members, names of every kind, a wrong clock, a phone, and a keyboard.

import assert from "node:assert/strict";
import { accessible, ask, directory, kill, page, picture, serve, until } from "./stage.mjs";

const MEMBERS = 100;
const EACH = 100;
const world = {};
const NAMES = ["<script>alert(1)</script>", "مرفأ الشمال", "🏗️ crane <b>", "\"><img src=x onerror=alert(1)>"];
const live = (view) => until("the page is live", () => view.$eval("#link", (link) => link.classList.contains("live")));
const found = (view) => view.textContent("#matches");

// A member that holds its part and keeps still: it may be silent for ten minutes.
async function hold(number) {
  const id = "node-" + String(number).padStart(3, "0");
  const profile = { name: id, ready: true, settled: true, plan_version: 1, labels: { zone: "z" + (number % 7) }, version: "1.2." + (number % 3) };
  const call = async (name, body) => {
    const answer = await ask(world.url, "POST", "/api/v1/store/" + name, body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };
  const { value: era } = await call("open", { session: { pool: "many", id: id + "-1", ttl_ms: 600000, profile } });
  const wanted = Array.from({ length: EACH }, (_, at) => ({ resource: "job-" + String(number * EACH + at).padStart(5, "0"), floor: 0 }));
  await call("acquire", { session: id + "-1", pulse: { era, number: 1, confirmed: 0 }, wanted });
  return { id: id + "-1", era, call };
}

export const stories = {
  async "shows ten thousand resources within a second, and stays smooth"() {
    Object.assign(world, await serve("many", "sqlite:" + directory + "/many.db"));
    world.held = [];
    for (let number = 0; number < MEMBERS; number += 10) world.held.push(...(await Promise.all(Array.from({ length: 10 }, (_, at) => hold(number + at)))));
    const view = (world.view = await page());
    // The first time the server reads everything itself.
    await view.goto(world.url + "/?pool=many");
    await until("all are there", async () => (await found(view)) === "10000 resources");
    await view.reload();
    const shown = await view.evaluate(() => new Promise((done) => {
      const look = () => (document.querySelector("#rows .row .owner")?.textContent ? done(performance.now()) : setTimeout(look, 5));
      look();
    }));
    const painted = await view.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
    await until("all are there", async () => (await found(view)) === "10000 resources");
    const scrolled = await view.evaluate(async () => {
      const frame = document.getElementById("rows");
      let worst = 0;
      let last = performance.now();
      for (let step = 0; step < 60; step++) {
        frame.scrollTop = (frame.scrollHeight / 60) * step;
        await new Promise(requestAnimationFrame);
        worst = Math.max(worst, performance.now() - last);
        last = performance.now();
      }
      frame.scrollTop = 0;
      return worst;
    });
    const rows = await view.$$eval("#rows .row", (rows) => rows.length);
    assert.ok(rows < 80, rows + " rows are in the page");
    console.log(`     first paint ${painted.toFixed(0)} ms, first rows ${shown.toFixed(0)} ms, slowest frame while scrolling ${scrolled.toFixed(0)} ms, ${rows} rows in the page`);
    // A loaded machine is no reason to fail; ten times the goal is.
    assert.ok(painted < 10000 && shown < 10000 && scrolled < 2000);
  },

  async "finds what is asked for, and keeps it in the address"() {
    const { view } = world;
    await view.keyboard.press("/");
    await view.keyboard.type("job-0423");
    await until("ten are found", async () => (await found(view)) === "10 of 10000 resources");
    assert.match(view.url(), /\?pool=many&q=job-0423$/);
    await view.selectOption("#owner", "node-042");
    await view.reload();
    await until("the same after a reload", async () => (await found(view)) === "10 of 10000 resources");
    assert.equal(await view.inputValue("#q"), "job-0423");
    await view.selectOption("#owner", "node-043");
    await until("none", async () => (await found(view)) === "0 of 10000 resources");
    await view.selectOption("#owner", "");
    const took = await view.evaluate(() => new Promise((done) => {
      const began = performance.now();
      const input = document.getElementById("q");
      input.value = "node-07";
      input.dispatchEvent(new Event("input"));
      const look = () => (/^1000 of/.test(document.getElementById("matches").textContent) ? done(performance.now() - began) : requestAnimationFrame(look));
      look();
    }));
    console.log(`     a filter over ten thousand is drawn within ${took.toFixed(0)} ms`);
    assert.ok(took < 3000);
    await picture(view, "many");
  },

  async "shows a change a moment after it happened"() {
    const { view } = world;
    await view.fill("#q", "job-00");
    assert.equal((await ask(world.url, "PUT", "/api/v1/many/job-00000", {})).status, 201);
    const { id, era, call } = world.held[0];
    await view.evaluate(() => {
      window.seen = [];
      new MutationObserver(() => window.seen.push([document.querySelector(".row[data-id='job-00000'] .owner")?.textContent, Date.now()]))
        .observe(document.getElementById("rows"), { subtree: true, childList: true, characterData: true });
    });
    const took = [];
    for (let turn = 0; turn < 5; turn++) {
      const token = turn === 0 ? 1 : world.token;
      const pulse = (number) => ({ era, number, confirmed: number - 1 });
      await call("release", { session: id, pulse: pulse(2 + 2 * turn), terms: [{ term: { resource: "job-00000", token }, offer: null }] });
      const released = Date.now();
      await until("it is free", () => view.evaluate((at) => window.seen.some(([owner, when]) => owner === "nobody" && when >= at), released - 5));
      const at = await view.evaluate((at) => window.seen.find(([owner, when]) => owner === "nobody" && when >= at)[1], released - 5);
      took.push(at - released);
      const again = await call("acquire", { session: id, pulse: pulse(3 + 2 * turn), wanted: [{ resource: "job-00000", floor: token }] });
      world.token = again.value[0].term.token;
      await until("it is owned", () => view.evaluate(() => document.querySelector(".row[data-id='job-00000'] .owner")?.textContent === "node-000"));
      await view.evaluate(() => { window.seen = []; });
    }
    took.sort((a, b) => a - b);
    console.log(`     a change among ten thousand is on the screen after ${took.join(", ")} ms`);
    assert.ok(took[2] < 5000);
  },

  async "takes every name for a name, in any script"() {
    await Promise.all(NAMES.map((name, at) => ask(world.url, "PUT", "/api/v1/names/name-" + at, { labels: { name, zone: name } })));
    assert.equal((await ask(world.url, "POST", "/api/v1/names/name-0/lease", { holder_id: "t" })).status, 201);
    const view = await page();
    // A browser whose clock is twenty years behind.
    await view.addInitScript(() => {
      const There = Date;
      const behind = 20 * 365 * 86400000;
      window.Date = class extends There {
        constructor(...given) { super(...(given.length ? given : [There.now() - behind])); }
        static now() { return There.now() - behind; }
      };
    });
    await view.goto(world.url + "/?pool=names");
    await live(view);
    await until("all are there", async () => (await found(view)) === NAMES.length + " resources");
    const shown = await view.$$eval("#rows .row:not([hidden]) .id small", (names) => names.map((name) => name.textContent));
    assert.deepEqual(shown, NAMES);
    await until("ages are by the server's clock", async () => /^\d+ s$/.test(await view.textContent("#rows .row[data-id='name-0'] .age")));
    await view.focus("#rows .row[tabindex='0']");
    await view.keyboard.press("ArrowDown");
    await view.keyboard.press("Enter");
    await view.waitForSelector("#details[open]");
    assert.match(await view.textContent("#details"), /مرفأ الشمال/);
    await accessible(view, "details");
    await view.keyboard.press("Escape");
    await view.waitForSelector("#details:not([open])", { state: "attached" });
    assert.equal(await view.$$eval("script:not([src]), img, b:not(.level b)", (all) => all.length), 0);
    assert.deepEqual(view.wrong, []);
    await view.context().close();
  },

  async "is fine on a phone and in the dark"() {
    const view = await page({ viewport: { width: 390, height: 844 }, colorScheme: "dark", hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
    await view.goto(world.url + "/?pool=many&q=job-0001");
    await live(view);
    await until("filtered", async () => (await found(view)) === "10 of 10000 resources");
    assert.ok(await view.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the phone");
    await accessible(view, "a phone in the dark");
    await view.locator("#resources-title").scrollIntoViewIfNeeded();
    await picture(view, "phone");
    assert.deepEqual(view.wrong, []);
    assert.deepEqual(world.view.wrong, []);
    await view.context().close();
    await kill(world.child, "SIGTERM");
  },
};
