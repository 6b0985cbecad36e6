"""Plots as SVG, of nothing but text: bars in groups, and curves on logarithmic axes."""

import html
import math

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 320, 70, 50, 60
COLOURS = ["#2f6db3", "#e0872d", "#4a9c5d", "#9c4a8f"]


def bars(title: str, names: list[str], groups: list[tuple[str, list[float]]]) -> str:
    """Bars on a logarithmic axis, because what is compared differs by orders of magnitude."""
    values = [value for _, of_group in groups for value in of_group if value > 0]
    axis = Axis(min(values, default=1), max(values, default=10))
    parts = [*frame(title, names), *axis.lines()]
    width = (WIDTH - LEFT - 20) / max(len(groups), 1)
    for place, (name, of_group) in enumerate(groups):
        left = LEFT + place * width
        parts.append(text(left + width / 2, HEIGHT - BOTTOM + 18, name, "middle"))
        thick = width * 0.8 / max(len(of_group), 1)
        for number, value in enumerate(of_group):
            if value <= 0:
                continue
            x, y = left + width * 0.1 + number * thick, axis.y(value)
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{thick - 3:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" '
                         f'fill="{COLOURS[number % len(COLOURS)]}"/>')
            parts.append(text(x + thick / 2, y - 4, short(value), "middle"))
    return page(parts)


def curves(title: str, series: list[tuple[str, list[tuple[float, float | None]]]]) -> str:
    """Curves of which both axes are logarithmic: a straight slope of one is linear growth."""
    points = [(x, y) for _, line in series for x, y in line if y]
    axis = Axis(min((y for _, y in points), default=1), max((y for _, y in points), default=10))
    least, most = min((x for x, _ in points), default=1), max((x for x, _ in points), default=10)
    span = math.log10(most / least) or 1

    def across(x: float) -> float:
        return LEFT + 20 + (WIDTH - LEFT - 60) * math.log10(x / least) / span

    parts = [*frame(title, [name for name, _ in series]), *axis.lines()]
    parts += [text(across(x), HEIGHT - BOTTOM + 18, f"{x:,.0f}", "middle") for x in sorted({x for x, _ in points})]
    for number, (_, line) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        there = [(across(x), axis.y(y)) for x, y in line if y]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in there)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in there]
    return page(parts)


class Axis:
    """A logarithmic axis from below."""

    def __init__(self, least: float, most: float) -> None:
        self.low = math.floor(math.log10(least) - 0.1)
        self.high = max(math.ceil(math.log10(most)), self.low + 1)

    def y(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def lines(self) -> list[str]:
        parts = []
        for power in range(self.low, self.high + 1):
            y = self.y(10.0 ** power)
            parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(text(LEFT - 8, y + 4, short(10.0 ** power), "end"))
        return parts


def short(value: float) -> str:
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.2g}"


def text(x: float, y: float, said: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(said)}</text>'


def frame(title: str, names: list[str]) -> list[str]:
    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{html.escape(title)}</text>']
    for number, name in enumerate(names):
        x = LEFT + number * 150
        parts.append(f'<rect x="{x}" y="{HEIGHT - 22}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(text(x + 16, HEIGHT - 13, name, "start"))
    return parts


def page(parts: list[str]) -> str:
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n')
