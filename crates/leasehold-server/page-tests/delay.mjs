// How long after it happened a change is on the screen, with ten thousand resources, a hundred members and a hundred heartbeats every ten seconds.
// TURNS says how often it is measured, LIMIT what the median must stay below, in milliseconds: nothing by default, as on a
// loaded machine and in a build for tests it says little.

import assert from "node:assert/strict";
import { ask, directory, hold, kill, live, page, serve, until } from "./stage.mjs";

const MEMBERS = 100;
const TURNS = Number(process.env.TURNS || 5);
const LIMIT = Number(process.env.LIMIT || 5000);
const JOB = "job-00000";

// Hears the pool as the page does, and notes when it is told who owns the job.
async function overhear(url) {
  const heard = [];
  const stop = new AbortController();
  const response = await fetch(url + "/api/v1/pools/many/watch", { signal: stop.signal });
  const read = async () => {
    let text = "";
    for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).split("\n").find((line) => line.startsWith("data:"));
        const row = data && JSON.parse(data.slice(5)).resources?.find((row) => row.id === JOB);
        if (row) heard.push([row.owner, Date.now()]);
      }
    }
  };
  read().catch(() => {});
  return { heard, stop: () => stop.abort() };
}

const part = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const figures = (took) => {
  took.sort((a, b) => a - b);
  return `median ${part(took, 0.5)} ms, 99 of 100 within ${part(took, 0.99)} ms, slowest ${took.at(-1)} ms`;
};

export const stories = {
  async "shows a change a moment after it happened"() {
    const { child, url } = await serve("delay", "sqlite:" + directory + "/delay.db");
    const held = [];
    for (let number = 0; number < MEMBERS; number += 10) held.push(...(await Promise.all(Array.from({ length: 10 }, (_, at) => hold(url, number + at)))));
    assert.equal((await ask(url, "PUT", "/api/v1/many/" + JOB, {})).status, 201);
    const view = await page();
    await view.goto(url + "/?pool=many&q=job-00");
    await live(view);
    await until("all are there", async () => (await view.textContent("#matches")) === "1000 of 10000 resources");
    await view.evaluate((job) => {
      window.seen = [];
      new MutationObserver(() => window.seen.push([document.querySelector(".row[data-id='" + job + "'] .owner")?.textContent, Date.now()]))
        .observe(document.getElementById("rows"), { subtree: true, childList: true, characterData: true });
    }, JOB);
    const beats = held.map(() => 1);
    const pulse = (at) => ({ era: held[at].era, number: ++beats[at], confirmed: beats[at] - 1 });
    let turn = 1;
    const beating = setInterval(() => { const at = 1 + (turn++ % (MEMBERS - 1)); held[at].call("beat", { session: held[at].id, pulse: pulse(at) }).catch(() => {}); }, 100);
    const ear = await overhear(url);
    const [told, shown] = [[], []];
    const { id, call } = held[0];
    let token = 1;
    for (let count = 0; count < TURNS; count++) {
      const at = Date.now();
      await call("release", { session: id, pulse: pulse(0), terms: [{ term: { resource: JOB, token }, offer: null }] });
      const released = Date.now();
      const first = (all, nobody) => all.find(([owner, when]) => owner === nobody && when >= at)?.[1];
      const seen = await until("it is free on the screen", async () => first(await view.evaluate(() => window.seen), "nobody"));
      // The event is over when it is answered; what hears of it before that has heard it at once.
      told.push(Math.max(0, (await until("it is told", () => first(ear.heard, null))) - released));
      shown.push(Math.max(0, seen - released));
      const again = await call("acquire", { session: id, pulse: pulse(0), wanted: [{ resource: JOB, floor: token }] });
      token = again.value[0].term.token;
      await until("it is owned", () => view.evaluate((job) => document.querySelector(".row[data-id='" + job + "'] .owner")?.textContent === "node-000", JOB));
      await view.evaluate(() => { window.seen = []; });
      ear.heard.length = 0;
    }
    clearInterval(beating);
    ear.stop();
    console.log(`     a change among ten thousand is told after: ${figures(told)}`);
    console.log(`     and is on the screen after: ${figures(shown)} (${TURNS} changes)`);
    assert.deepEqual(view.wrong, []);
    assert.ok(part(shown, 0.5) < LIMIT, "the median is not below " + LIMIT + " ms");
    await view.context().close();
    await kill(child, "SIGTERM");
  },
};
