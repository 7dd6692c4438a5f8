"""Tables of a run's document (pure functions that return rows of text)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import fmean, median

from bench.document import COMMANDS, WHOLE, WHOLE_COMMANDS, Costs, Document
from bench.samples import Spread, growth, quantile, ratio, spread

Row = list[str]
Table = list[Row]
UNABLE = "failed"
# Milliseconds per additional element that count as noise.
NOISE = 0.005
# The members of Costs, with their name in tables and the number of decimals.
MEASURES = {
    "cpu": ("user + system CPU, ms", 1),
    "faults": ("minor page faults", 0),
    "memory": ("peak memory, MiB", 1),
}
SMALL = 0.1  # milliseconds; smaller parts of a profile are added up
KIB = 1024


def as_text(rows: Table) -> str:
    """Return columns for a terminal, the first one to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    )


def as_markdown(rows: Table) -> str:
    """Return a table of Markdown, the first column to the left."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:]))


def names(document: Document) -> list[str]:
    """Return the names of the runtimes, which are the columns, ours first."""
    return [runtime["name"] for runtime in document["runtimes"]]


def peers(document: Document) -> list[str]:
    """Return the names of the runtimes to compare the first one with.

    An ociruntime is compared with its snapshot, not without.
    """
    first, *others = document["runtimes"]
    seen = {first["path"]}
    found = []
    for runtime in others:
        if runtime["path"] not in seen:
            found.append(runtime["name"])
            seen.add(runtime["path"])
    return found


def walls(costs: Mapping[str, Costs]) -> dict[str, list[float]]:
    """Return the wall times by command, and those of the whole life round by round."""
    found = {command: costs[command]["wall"] for command in COMMANDS}
    whole = zip(*(costs[command]["wall"] for command in WHOLE_COMMANDS), strict=True)
    return found | {WHOLE: [sum(times) for times in whole]}


def medians(document: Document, bundle: str) -> dict[str, dict[str, float]]:
    """Return the median wall times by runtime and command."""
    return {
        name: {command: median(times) for command, times in walls(costs).items()}
        for name, costs in document["life"][bundle].items()
    }


def life(document: Document, bundle: str) -> Table:
    """Return a table of the medians, and the ratios of ours to each other runtime's."""
    columns = [*COMMANDS, WHOLE]
    found = medians(document, bundle)
    rows = [["median ms", *columns]]
    rows += [[name, *(f"{found[name][one]:.1f}" for one in columns)] for name in names(document)]
    own = names(document)[0]
    for peer in peers(document):
        ratios = [ratio(found[own][one], found[peer][one]) for one in columns]
        rows.append([_comparison(own, peer), *map(_as_ratio, ratios)])
    return rows


def spreads(document: Document, bundle: str) -> Table:
    """Return median, quartiles and minimum of each command, a column a runtime."""
    rows = [["ms: median (quartiles) minimum", *names(document)]]
    times = {name: walls(document["life"][bundle][name]) for name in names(document)}
    for command in (*COMMANDS, WHOLE):
        cells = [_as_spread(spread(times[name][command])) for name in names(document)]
        rows.append([command, *cells])
    return rows


def costs(document: Document, bundle: str, measure: str) -> Table:
    """Return the medians of CPU time, page faults or peak memory by command."""
    title, digits = MEASURES[measure]
    rows = [[title, *COMMANDS]]
    for name in names(document):
        found = document["life"][bundle][name]
        rows.append([name, *(_cost(found[command], measure, digits) for command in COMMANDS)])
    return rows


def _cost(found: Costs, measure: str, digits: int) -> str:
    values: dict[str, Callable[[], float]] = {
        "cpu": lambda: median(found["cpu"]),
        "faults": lambda: median(found["faults"]),
        "memory": lambda: median(found["memory"]) / KIB,
    }
    return f"{values[measure]():.{digits}f}"


def floor(document: Document) -> Table:
    """Return the costs of commands that do little besides starting."""
    rows = [["medians", "wall, ms", *(title for title, _ in MEASURES.values())]]
    for name, found in document["floor"].items():
        cells = [_cost(found, measure, digits) for measure, (_, digits) in MEASURES.items()]
        rows.append([name, f"{median(found['wall']):.2f}", *cells])
    return rows


def waiting(document: Document) -> Table:
    """Return memory and CPU time of the init of a created container."""
    head = ["container's init", "PSS, KiB", "RSS, KiB", "CPU until created, ms", "in all"]
    rows = [head]
    for name in names(document):
        found = document["waiting"][name]
        sizes = [f"{median(values):.0f}" for values in (found["pss"], found["rss"])]
        times = [f"{median(values):.1f}" for values in (found["cpu_created"], found["cpu_ended"])]
        rows.append([name, *sizes, *times])
    return rows


def scaling(document: Document, kind: str) -> Table:
    """Return the minimum times by number of elements, the slopes, and the curve's shape.

    Minima and not medians, because the difference of two noisy values is noisier than both.
    """
    counts = _counts(document, kind)
    pairs = list(pairwise(counts))[-2:]
    slopes = [f"µs each, {low}-{high}" for low, high in pairs]
    rows = [[f"{kind}: create + delete, least ms", *map(str, counts), *slopes, "growth"]]
    for name in names(document):
        found = document["scaling"][kind].get(name, {})
        at = {count: min(found[str(count)]) for count in counts if found.get(str(count))}
        cells = [f"{at[count]:.1f}" if count in at else UNABLE for count in counts]
        costs_of_one = [
            f"{(at[high] - at[low]) / (high - low) * 1e3:.0f}" if low in at and high in at else ""
            for low, high in pairs
        ]
        verdict = growth(at).verdict(NOISE) if len(at) == len(counts) else ""
        rows.append([name, *cells, *costs_of_one, verdict])
    return rows


def _counts(document: Document, kind: str) -> list[int]:
    found = {int(count) for times in document["scaling"][kind].values() for count in times}
    return sorted(found)


def seccomp(document: Document) -> Table:
    """Return the times of create and start with a new profile, with a known one, and without."""
    rows = [["create + start, median ms", "first", "again", "none", "+ first", "+ again"]]
    for name in names(document):
        found = document["seccomp"][name]
        cells = [median(found[kind]) for kind in ("first", "again", "none")]
        # Take the median of each round's difference: a temporary slowdown affects both values.
        for kind in ("first", "again"):
            pairs = zip(found[kind], found["none"], strict=True)
            cells.append(median(one - other for one, other in pairs))
        rows.append([name, *(f"{cell:.1f}" for cell in cells)])
    return rows


def crowd(document: Document) -> Table:
    """Return the times of many containers at once, and the failures of all rounds."""
    count = max((found["count"] for found in document["crowd"].values()), default=0)
    rows = [[f"{count} at once, ms", "create", "one each", "delete", "failures"]]
    for name in names(document):
        found = document["crowd"][name]
        created = median(found["create"])
        deleted = f"{median(found['delete']):.0f}" if found["delete"] else ""
        each = f"{created / found['count']:.1f}"
        rows.append([name, f"{created:.0f}", each, deleted, str(found["failures"])])
    return rows


def pods(document: Document) -> Table:
    """Return the engines' times to the app's first line and to the end, ours first."""
    found = document["pods"]
    rows = [["median ms (quartiles) minimum", "first line", "end"]]
    for name, times in found["first_line"].items():
        cells = (spread(times), spread(found["end"][name]))
        rows.append([name, *map(_as_spread, cells)])
    return rows


def idle(document: Document) -> Table:
    """Return the memory of idle pods."""
    found = document["pods"]
    rows = [["idle pod, PSS KiB", "at start", "hibernated", "of which"]]
    for name, later in found["idle_later"].items():
        first, parts = found["idle_first"][name], found["idle_parts"][name]
        rows.append([name, f"{first:.0f}", f"{later:.0f}", parts])
    return rows


def managers(document: Document) -> Table:
    """Return the times of the clients' commands and the memory of the daemons, ours first."""
    found = document["managers"]
    own, *others = found["times"]
    ratios = [_comparison(own, other) for other in others]
    rows = [["ms: median (quartiles) minimum", own, *others, *ratios]]
    for command, times in found["times"][own].items():
        columns = [times, *(found["times"][other][command] for other in others)]
        spreads = [spread(column) for column in columns]
        compared = [_as_ratio(ratio(spreads[0].median, peer.median)) for peer in spreads[1:]]
        rows.append([command, *map(_as_spread, spreads), *compared])
    sizes = [found["memory"][name] / KIB for name in (own, *others)]
    cells = [f"{size:.0f}" if size else "" for size in sizes]
    compared = [_as_ratio(ratio(sizes[0], size)) for size in sizes[1:]]
    return [*rows, [f"daemon with {found['count']} containers, MiB", *cells, *compared]]


def probes(document: Document) -> Table:
    """Return times, CPU time and the growth of the shim under exec probes, ours first."""
    found = document["probes"]
    kind = f"{found['rate']} probes a second, {found['minutes']} minutes"
    rows = [[kind, *found["times"]]]

    def add(title: str, cell: Callable[[str], str]) -> None:
        rows.append([title, *map(cell, found["times"])])

    def times(name: str, first: int = 0, last: int | None = None) -> list[float]:
        return [time for minute in found["times"][name][first:last] for time in minute]

    def grown(name: str, what: str) -> str:
        sizes: list[int] = [size[what] for size in found["shim"][name]]  # type: ignore[literal-required]
        return f"{sizes[0]} to {sizes[-1]}"

    add("p50, ms", lambda name: f"{quantile(times(name), 0.5):.1f}")
    add("p99, ms", lambda name: f"{quantile(times(name), 0.99):.1f}")
    add("slowest, ms", lambda name: f"{max(times(name)):.1f}")
    add("p50 of the first minute, ms", lambda name: f"{quantile(times(name, 0, 1), 0.5):.1f}")
    add("p50 of the last minute, ms", lambda name: f"{quantile(times(name, -1), 0.5):.1f}")
    add("CPU per probe, ms", lambda name: f"{fmean(found['cpu'][name]):.1f}")
    add("shim: PSS, KiB", lambda name: grown(name, "memory"))
    add("shim: descriptors", lambda name: grown(name, "descriptors"))
    add("shim: threads", lambda name: grown(name, "threads"))
    add("shim: processes below it", lambda name: grown(name, "children"))
    add("left behind", lambda name: str(len(found["left"][name])))
    return rows


def node(document: Document) -> Table:
    """Return the cost of starting, running and removing a pod with one container."""
    found = document["probes"]["pods"]
    rows = [["pod with one container", *found]]
    kinds = (
        ("start, ms", "up"),
        ("start: CPU, ms", "cpu_up"),
        ("stop and remove, ms", "down"),
        ("stop and remove: CPU, ms", "cpu_down"),
    )
    for title, kind in kinds:
        spreads: list[list[float]] = [one[kind] for one in found.values()]  # type: ignore[literal-required]
        rows.append([title, *(_as_spread(spread(values)) for values in spreads)])
    programs = dict.fromkeys(name for one in found.values() for name in one["memory"])
    for program in programs:
        cells = [f"{one['memory'].get(program, 0):.0f}" for one in found.values()]
        rows.append([f"running: PSS of {program}, KiB", *cells])
    rows.append(["running: in the state root, KiB", *(f"{e['state']:.0f}" for e in found.values())])
    return rows


def profile(title: str, values: Mapping[str, float], unit: str) -> Table:
    """Return the activities that took time, the largest first; those below SMALL are added up."""
    total = sum(values.values())
    rows = [[title, unit, "share"]]
    small = 0.0
    for name, value in values.items():
        if value < SMALL:
            small += value
        else:
            rows.append([name, f"{value:.2f}", f"{value / total:.0%}"])
    if small:
        rows.append([f"what took less than {SMALL} each", f"{small:.2f}", f"{small / total:.0%}"])
    return [*rows, ["together", f"{total:.2f}", "100%"]] if total else rows


def _comparison(own: str, peer: str) -> str:
    """Return "ociruntime / runc" for "ociruntime 0.1.0" and "runc 1.1.5"."""
    programs = [name.split(maxsplit=1)[0] for name in (own, peer)]
    return " / ".join(programs if len(set(programs)) > 1 else (own, peer))


def _as_ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _as_spread(found: Spread) -> str:
    return f"{found.median:.1f} ({found.low:.1f}-{found.high:.1f}) {found.least:.1f}"
