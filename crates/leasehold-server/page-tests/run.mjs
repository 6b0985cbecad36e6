// Runs every story, one after the other, and closes with a line that is counted like any other test's.

import { close, open } from "./stage.mjs";
import { stories as delay } from "./delay.mjs";
import { stories as many } from "./many.mjs";
import { stories as operators } from "./operators.mjs";

const wanted = process.argv[2];
const parts = Object.entries({ operators, many, delay }).filter(([name]) => !wanted || name === wanted);
let passed = 0;
let failed = 0;
try {
  console.log("chromium " + (await open()));
  for (const [name, stories] of parts) {
    for (const [story, run] of Object.entries(stories)) {
      const began = Date.now();
      try {
        await run();
        passed++;
        console.log(`test ${name}: ${story} ... ok (${((Date.now() - began) / 1000).toFixed(1)} s)`);
      } catch (error) {
        failed++;
        console.log(`test ${name}: ${story} ... FAILED\n${error.stack}`);
        break; // What follows builds on it.
      }
    }
  }
} finally {
  await close();
}
console.log(`test result: ${failed ? "FAILED" : "ok"}. ${passed} passed; ${failed} failed; 0 ignored`);
process.exit(failed ? 1 : 0);
