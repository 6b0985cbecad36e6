// Ten thousand resources and a hundred members, names of every kind, a wrong clock, a phone, and a keyboard.

import assert from "node:assert/strict";
import { accessible, ask, directory, hold, kill, live, page, picture, serve, until } from "./stage.mjs";

const MEMBERS = 100;
const world = {};
const NAMES = ["<script>alert(1)</script>", "مرفأ الشمال", "🏗️ crane <b>", "\"><img src=x onerror=alert(1)>"];
const found = (view) => view.textContent("#matches");

export const stories = {
  async "shows ten thousand resources within a second, and stays smooth"() {
    Object.assign(world, await serve("many", "sqlite:" + directory + "/many.db"));
    world.held = [];
    for (let number = 0; number < MEMBERS; number += 10) world.held.push(...(await Promise.all(Array.from({ length: 10 }, (_, at) => hold(world.url, number + at)))));
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
