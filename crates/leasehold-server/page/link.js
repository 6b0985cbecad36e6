// The stream of a pool, read by `fetch` so that it is known why it ended. Whoever hears nothing for a few ticks says so.

import { hear, silence } from "./clock.js";

const PATIENCE = 5000;
let current;

// Listens to a pool until the next call. `told` gets every change; `state` gets "wait", "live", "lost" or "refused" and a sentence.
export function listen(pool, told, state) {
  if (current) current.abort();
  const mine = new AbortController();
  current = mine;
  follow(pool, told, state, mine);
}

export function deaf() {
  if (current) current.abort();
  current = undefined;
}

async function follow(pool, told, state, mine) {
  let pause = 500;
  state("wait", "Connecting…");
  while (!mine.signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    mine.signal.addEventListener("abort", stop);
    let began = performance.now();
    const watchdog = setInterval(() => {
      if (performance.now() - began > PATIENCE && silence() > PATIENCE) attempt.abort();
    }, 500);
    try {
      const response = await fetch("/api/v1/pools/" + encodeURIComponent(pool) + "/watch", { signal: attempt.signal, cache: "no-store", credentials: "same-origin" });
      if (response.status === 401 || response.status === 403) {
        const body = await response.json().catch(() => ({}));
        state("refused", body.message || "Not allowed", response.status);
        return;
      }
      if (!response.ok) throw new Error("the server answered " + response.status);
      for await (const { event, data } of events(response.body)) {
        const said = JSON.parse(data);
        hear(said.now);
        began = performance.now();
        pause = 500;
        if (event === "change") told(said);
        state("live", "Live");
      }
    } catch (error) {
      if (mine.signal.aborted) return;
    } finally {
      clearInterval(watchdog);
      mine.signal.removeEventListener("abort", stop);
      attempt.abort();
    }
    if (mine.signal.aborted) return;
    state("lost", "Connection lost");
    await new Promise((resume) => setTimeout(resume, pause * (0.75 + Math.random() / 2)));
    pause = Math.min(pause * 2, 5000);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      const event = (lines.find((line) => line.startsWith("event:")) || "").slice(6).trim();
      if (data) yield { event, data };
    }
  }
}
