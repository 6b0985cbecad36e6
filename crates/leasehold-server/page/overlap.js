// For how long bars lie over each other, all together, in milliseconds: it must stay 0.

export function overlap(resources, from) {
  let total = 0;
  for (const { bars } of resources.values()) {
    if (bars.length < 2) continue;
    let until = 0;
    for (const bar of bars) {
      const begin = Math.max(bar.from, from);
      if (begin < until) total += Math.min(until, bar.until === null ? until : bar.until) - begin;
      if (bar.until !== null) until = Math.max(until, bar.until);
    }
  }
  return Math.max(0, total);
}
