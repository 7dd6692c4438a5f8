"""Draw a bar chart of medians as SVG (a pure function)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 800
LABEL = 70  # pixels for the commands' names
VALUE = 60  # pixels for the numbers right of the bars
TOP = 64
BAR = 14
GAP = 12  # pixels between two commands
LEGEND_ITEM = 195
COLOURS = ("#2f6fde", "#9db9ee", "#c2571a", "#6f8f2f", "#8a5fb0", "#777777")
# These colours work on light and dark pages: text takes the page's colour, bars contrast with both.
STYLE = """
text { font: 12px sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: bold }
.axis { stroke: #8c959f; stroke-width: 1 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .axis { stroke: #768390 } }
"""


def bars(
    title: str,
    values: Mapping[str, Mapping[str, float]],
    groups: Sequence[str],
    unit: str = "ms",
) -> str:
    """Return an SVG chart of horizontal bars, one of each of ``values`` for each of ``groups``.

    A value that is missing has no bar.
    """
    series = list(values)
    largest = max((values[name].get(group, 0) for name in series for group in groups), default=0)
    scale = (WIDTH - LABEL - VALUE) / largest if largest else 0
    height = TOP + len(groups) * (len(series) * BAR + GAP)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    label = escape(title)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="16">{label}</text>',
    ]
    for index, name in enumerate(series):
        x = index * LEGEND_ITEM
        lines.append(f'<rect x="{x}" y="30" width="12" height="12" fill="{_colour(index)}"/>')
        lines.append(f'<text x="{x + 18}" y="41">{escape(name)}</text>')
    for row, group in enumerate(groups):
        top = TOP + row * (len(series) * BAR + GAP)
        middle = top + len(series) * BAR / 2 + 4
        lines.append(f'<text x="0" y="{middle:.0f}">{escape(group)}</text>')
        for index, name in enumerate(series):
            if group in values[name]:
                lines += _bar(top + index * BAR, values[name][group], scale, _colour(index), unit)
    lines.append(
        f'<line class="axis" x1="{LABEL}" y1="{TOP - 4}" x2="{LABEL}" y2="{height - GAP + 4}"/>'
    )
    return "\n".join([*lines, "</svg>", ""])


def _bar(y: int, value: float, scale: float, colour: str, unit: str) -> list[str]:
    width = value * scale
    return [
        f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colour}"/>',
        f'<text x="{LABEL + width + 4:.1f}" y="{y + BAR - 4}">{value:.1f} {escape(unit)}</text>',
    ]


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
