#!/usr/bin/python3
"""Draws what a run of the benchmark found, as SVG: plots.py RUN.json FOLDER

One file for each part that the run has (latency, backlog, recording, …), beside the Performance page. A bar is the
median of the rounds, the line on it goes from the smallest to the largest.
"""

from __future__ import annotations

import html
import json
import math
import pathlib
import re
import sys
from statistics import median

#: File, title, and what its figures' groups and names contain (regular expressions).
PLOTS = [
    ("paces", "From COMMIT's return to the plugin, by the pause between commits", "to the plugin.*NORMAL", r"^historyd, p\d+$"),
    ("latency", "From COMMIT's return to the consumer", "to the consumer", ""),
    ("backlog", "Working off a backlog", "a backlog of .*transactions( of |$)", "^worked off"),
    ("recording", "What recording costs a writer", r"recording, 5 columns.*processor", "declared author|by hand"),
    ("stream", "Over NATS to a mirror", "to the mirror's commit", ""),
]
WIDTH, LABELS, BAR, GAP = 900, 330, 13, 9
STYLE = """
    text { font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2733 }
    .title { font-size: 16px; font-weight: 600 }
    .group { font-weight: 600 }
    .small { font-size: 12px; fill: #5a6675 }
    .own { fill: #3f7fc1 }
    .other { fill: #b9c2cd }
    .range { stroke: #1f2733; stroke-width: 1.2 }
    .axis { stroke: #d4dae1; stroke-width: 1 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e8edf4 }
      .small { fill: #aab5c2 }
      .own { fill: #62a0e0 }
      .other { fill: #5d6978 }
      .range { stroke: #e8edf4 }
      .axis { stroke: #3a4450 }
    }"""


def rows(figures):
    """(group, label, unit, [(name, class, rounds)]): a measured thing, and what it is beside."""
    merged = {}
    for figure in figures:
        key = figure["group"], figure["name"], figure.get("unit", "")
        bars = merged.setdefault(key, [("", "own", figure["rounds"])])
        baseline = figure.get("baseline")
        if baseline and baseline["name"] not in [name for name, _, _ in bars]:
            bars.append((baseline["name"], "other", baseline["rounds"]))
    return [(*key, bars) for key, bars in merged.items()]


def text(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()


def svg(title: str, figures) -> str:
    lines, y = [], 34
    scales = {}
    for _, _, unit, bars in rows(figures):
        values = [value for _, _, rounds in bars for value in rounds if value > 0]
        scales.setdefault(unit, []).extend(values)

    def x(value: float, unit: str) -> float:
        values = scales[unit] or [1]
        low, high = min(values), max(values)
        room = WIDTH - LABELS - 190
        if high / low > 30:  # decades
            bottom = math.floor(math.log10(low))
            return room * max(0.0, math.log10(max(value, 1e-12)) - bottom) / (math.log10(high) - bottom or 1)
        return room * value / high

    logarithmic = any(values and max(values) / min(values) > 30 for values in scales.values())
    group = None
    for name, label, unit, bars in rows(figures):
        if name != group:
            group, y = name, y + 14
            lines.append(f'<text class="group" x="0" y="{y + 6}">{html.escape(name)}</text>')
            y += 18
        for index, (other, kind, rounds) in enumerate(bars):
            value = median(rounds)
            length = x(value, unit)
            lines.append(
                f'<text x="{LABELS - 10}" y="{y + BAR - 2}" text-anchor="end" class="{"small" if index else ""}">'
                f"{html.escape(other or label)}</text>"
                f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{max(length, 1):.1f}" height="{BAR}" rx="2"/>'
            )
            if len(rounds) > 1:
                low, high = x(min(rounds), unit), x(max(rounds), unit)
                middle = y + BAR / 2
                lines.append(
                    f'<line class="range" x1="{LABELS + low:.1f}" x2="{LABELS + high:.1f}" y1="{middle}" y2="{middle}"/>'
                )
                length = max(length, high)
            lines.append(f'<text class="small" x="{LABELS + length + 8:.1f}" y="{y + BAR - 2}">{text(value, unit)}</text>')
            y += BAR + 3
        y += GAP
    note = "blue: historyd, gray: beside it" + ("; logarithmic scale" if logarithmic else "")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 24}" role="img">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{STYLE}\n</style>",
            f'<text class="title" x="0" y="18">{html.escape(title)}</text>',
            f'<line class="axis" x1="{LABELS}" x2="{LABELS}" y1="34" y2="{y}"/>',
            *lines,
            f'<text class="small" x="0" y="{y + 14}">{note}</text>',
            "</svg>\n",
        ]
    )


def main(run: str, folder: str) -> None:
    record = json.loads(pathlib.Path(run).read_text())
    target = pathlib.Path(folder)
    for name, title, group, label in PLOTS:
        figures = [
            each
            for each in record["figures"]
            if re.search(group, each["group"]) and re.search(label, each["name"])
        ]
        if not figures:
            print(f"{run} has nothing for {name}: run make bench, or make bench-{name}", file=sys.stderr)
            continue
        file = target / f"bench-{name}.svg"
        file.write_text(svg(title, figures))
        print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
