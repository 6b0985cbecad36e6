// The server's time. This machine's own clock may be wrong, so it is asked only how much time has passed.

let told;
let heard = 0;

export function hear(now) {
  told = now;
  heard = performance.now();
}

// While nothing is heard nothing is known, and time stands still: who was not heard is not the one who is late.
let held = false;
export const hold = (is) => { held = is; };

// Milliseconds since 1970 as the server counts them.
export const now = () => (told === undefined || held ? told : told + (performance.now() - heard));

// How long ago the server was last heard, in milliseconds.
export const silence = () => performance.now() - heard;

export function span(ms) {
  if (ms === undefined || Number.isNaN(ms)) return "–";
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " m " + (s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " m";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

const format = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
export const time = (ms) => format.format(new Date(ms)) + "." + String(Math.floor(ms % 1000)).padStart(3, "0").slice(0, 1);
