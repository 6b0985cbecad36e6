"""From what was measured to tables and plots: docs/performance.md and the pictures beside it."""

import pathlib
import statistics

import plot

BEGIN, END = "<!-- figures: written by bench/run -->", "<!-- end of figures -->"
STORES = ["sqlite", "postgres", "redis", "etcd"]
NAMES = {"sqlite": "embedded", "postgres": "PostgreSQL", "redis": "Redis", "etcd": "etcd"}


class Figures:
    """The rows, to be asked for."""

    def __init__(self, results: dict) -> None:
        self.rows = results.get("rows") or [*results.get("rounds", []), *results.get("once", [])]

    def values(self, store: str, case: str, metric: str) -> list[float]:
        """The values of the first row whose case begins like this."""
        for row in self.rows:
            if row["store"] == store and row["case"].startswith(case) and row["metric"] == metric:
                return row["values"]
        return []

    def median(self, store: str, case: str, metric: str) -> float | None:
        values = self.values(store, case, metric)
        return statistics.median(values) if values else None


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values: list[float]) -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def ratio(over: list[float], under: list[float]) -> list[float]:
    """Round by round: what disturbed one of them disturbed its neighbour too."""
    return [one / other for one, other in zip(over, under)]


def lines(rows: list[list[str]]) -> str:
    head, *body = rows
    text = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join(text + [f"| {' | '.join(row)} |" for row in body])


def verdict(reached: list[float], wanted: float, at_least: bool) -> str:
    if not reached:
        return "not measured"
    middle = statistics.median(reached)
    return "reached" if (middle >= wanted if at_least else middle <= wanted) else "**missed**"


def promises(figures: Figures) -> str:
    """What must be shown, each as a ratio or a bound."""
    rows = [["what", "wanted", "measured", ""]]

    def promise(what: str, wanted: str, values: list[float], bound: float, at_least: bool = True) -> None:
        rows.append([what, wanted, spread(values), verdict(values, bound, at_least)])

    peers = {"postgres": ("documented transaction", 15), "redis": ("SET NX PX", 2), "etcd": ("grant and transaction", 10)}
    for store, (peer, times) in peers.items():
        values = ratio(batched(figures, store), figures.values(store, peer, "a second"))
        promise(f"{NAMES[store]}: batched acquire, as a multiple of {peer}", f"≥ {times}", values, times)
    values = ratio(batched(figures, "sqlite"), figures.values("etcd", "grant and transaction", "a second"))
    promise("embedded: batched acquire, as a multiple of etcd's grant and transaction", "≥ 20", values, 20)
    values = ratio(figures.values("http", "leasehold, acquire", "a second"), figures.values("http", "empty", "a second"))
    promise("REST, durable single acquires, as a part of an empty handler", "≥ 0.5", values, 0.5)
    for store in STORES:
        name = NAMES[store]
        promise(f"{name}: handoff, median", "< 20 ms", figures.values(store, "handoff", "median_ms"), 20, False)
        promise(f"{name}: handoff, p99", "< 100 ms", figures.values(store, "handoff", "p99_ms"), 100, False)
        promise(f"{name}: failover beyond the TTL, p99", "< 500 ms", figures.values(store, "failover", "p99_ms"), 500, False)
    for store in STORES:
        saved = figures.values(store, "keep, fewer", "times")
        promise(f"{NAMES[store]}: fewer calls than one renewal for each lease", "≥ 100", saved, 100)
        party = "client" if store == "sqlite" else "server"
        promise(f"{NAMES[store]}: cores that the store needs for it", "< 0.5", figures.values(store, f"keep, {party}", "cores"), 0.5, False)
    promise("plan of 1,000,000 × 100, all free", "< 1000 ms", figures.values("plan", "plan of 1000000 on 100, all free", "ms"), 1000, False)
    promise("plan of 1,000,000 × 100 after one change", "< 10 ms", figures.values("plan", "plan of 1000000 on 100, one change", "ms"), 10, False)
    promise("moves when one joins 100 on 1,000,000", "9900", figures.values("plan", "plan of 1000000 on 100, one joins", "moves"), 9900)
    return lines(rows)


def batched(figures: Figures, store: str) -> list[float]:
    """The batched acquire, whatever the store's largest batch is."""
    for row in figures.rows:
        case = row["case"]
        if row["store"] == store and row["metric"] == "per_second" and case.startswith("acquire, ") and " a call" in case \
                and not case.startswith("acquire, one"):
            return row["values"]
    return []


def calls(figures: Figures) -> str:
    cases = [("acquire, one", "acquire, one a call, a second"), ("release, one", "release, one a call, a second"),
             ("acquire, contended", "contended, a second")]
    rows = [["", *[NAMES[store] for store in STORES]]]
    rows.append(["acquire, batched, a second", *[spread(batched(figures, store)) for store in STORES]])
    for case, name in cases:
        rows.append([name, *[spread(figures.values(store, case, "per_second")) for store in STORES]])
    peers = [("", []), ("documented transaction", []), ("SET NX PX", []), ("grant and transaction", [])]
    values = [spread(figures.values(store, peer, "a second")) if peer else "–" for store, (peer, _) in zip(STORES, peers)]
    rows.append(["the peer's acquire, a second", *values])
    rows.append(["the peer's renewal, a second", "–", "–", spread(figures.values("redis", "renew", "a second")),
                 spread(figures.values("etcd", "keep-alive", "a second"))])
    rows.append(["other peers", f"fdatasync {spread(figures.values('disk', 'fdatasync', 'a second'))} a second", "–",
                 f"redlock on 3 servers {spread(figures.values('redis', 'redlock', 'a second'))} a second",
                 f"`etcdctl lock` {spread(figures.values('etcd', 'etcdctl', 'ms'))} ms"])
    return lines(rows)


def heartbeats(figures: Figures) -> str:
    sizes = sorted({int(row["case"].split()[1]) for row in figures.rows if row["case"].startswith("heartbeat, ")})
    rows = [["leases held", *[NAMES[store] for store in STORES]]]
    for size in sizes:
        rows.append([f"{size:,}", *[spread(figures.values(store, f"heartbeat, {size} held", "median_ms")) for store in STORES]])
    return lines(rows)


def keeping(figures: Figures) -> str:
    rows = [["", *[NAMES[store] for store in STORES]]]
    for name, case, metric in [("calls a second", "keep ", "per_second"), ("server, cores", "keep, server", "cores"),
                               ("server, MB", "keep, server", "memory_mb"), ("all clients, cores", "keep, client", "cores"),
                               ("all clients, MB", "keep, client", "memory_mb"), ("one whole read, s", "read of", "seconds")]:
        rows.append([name, *[spread(figures.values(store, case, metric)) for store in STORES]])
    return lines(rows)


def crowds(figures: Figures) -> str:
    rows = [["", *[NAMES[store] for store in STORES]]]
    for name, case, metric in [("a change is known to all, median ms", "fan-out", "median_ms"),
                               ("a change is known to all, p99 ms", "fan-out", "p99_ms"),
                               ("cold start until all is owned, s", "cold start", "seconds"),
                               ("calls of a cold start", "cold start", "calls")]:
        rows.append([name, *[spread(figures.values(store, case, metric)) for store in STORES]])
    return lines(rows)


def plans(figures: Figures) -> str:
    sizes = sorted({tuple(int(word) for word in row["case"].replace(",", "").split() if word.isdigit())
                    for row in figures.rows if row["store"] == "plan"})
    rows = [["resources", "members", "all free, ms", "one change, ms", "one joins, ms", "moves"]]
    for resources, members in sizes:
        case = f"plan of {resources} on {members}, "
        cells = [spread(figures.values("plan", case + what, "ms")) for what in ("all free", "one change", "one joins")]
        rows.append([f"{resources:,}", f"{members:,}", *cells, spread(figures.values("plan", case + "one joins", "moves"))])
    return lines(rows)


def table(results: dict) -> str:
    """Everything as text."""
    figures = Figures(results)
    about = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    parts = [("What was promised", promises), ("Calls", calls), ("A heartbeat, median ms", heartbeats),
             ("Keeping leases alive", keeping), ("Many members", crowds), ("Plans", plans)]
    sections = [f"### {title}\n\n{part(figures)}" for title, part in parts]
    return f"Measured on one machine: {about}.\n\n" + "\n\n".join(sections)


def write(root: pathlib.Path, results: dict) -> None:
    page = root / "docs" / "performance.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}")
    pictures(root / "docs" / "performance", Figures(results))


def pictures(to: pathlib.Path, figures: Figures) -> None:
    to.mkdir(exist_ok=True)
    peer = {"postgres": "documented transaction", "redis": "SET NX PX", "etcd": "grant and transaction"}
    groups = [(NAMES[store], [statistics.median(batched(figures, store) or [0]),
                              figures.median(store, "acquire, one", "per_second") or 0,
                              (figures.median(store, peer[store], "a second") or 0) if store in peer else 0]) for store in STORES]
    (to / "acquire.svg").write_text(plot.bars("Leases acquired a second", ["batched", "one a call", "the peer"], groups))
    groups = [(NAMES[store], [figures.median(store, "handoff", "median_ms") or 0, figures.median(store, "handoff", "p99_ms") or 0])
              for store in STORES]
    (to / "handoff.svg").write_text(plot.bars("Handoff, ms from the last step to the first", ["median", "p99"], groups))
    groups = [(NAMES[store], [figures.median(store, "failover", "median_ms") or 0, figures.median(store, "failover", "p99_ms") or 0])
              for store in STORES]
    (to / "failover.svg").write_text(plot.bars("Failover, ms beyond the TTL", ["median", "p99"], groups))
    sizes = sorted({int(row["case"].split()[1]) for row in figures.rows if row["case"].startswith("heartbeat, ")})
    curves = [(NAMES[store], [(size, figures.median(store, f"heartbeat, {size} held", "median_ms")) for size in sizes])
              for store in STORES]
    (to / "heartbeat.svg").write_text(plot.curves("A heartbeat by leases held, median ms", curves))
    curves = [(f"{members} members", [(size, figures.median("plan", f"plan of {size} on {members}, all free", "ms"))
                                      for size in (1000, 100000, 1000000)]) for members in (3, 100, 1000)]
    (to / "plan.svg").write_text(plot.curves("A plan by resources, ms", curves))
