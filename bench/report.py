"""Format results as tables for the terminal or Markdown, and update marked blocks in pages."""

from __future__ import annotations

import re
from collections.abc import Callable

from bench import chart, tables
from bench.bundles import DOCKER, PLAIN
from bench.document import COMMANDS, WHOLE, Document
from bench.tables import Table

Shape = Callable[[Table], str]
# Marks in a page: <!-- bench: NAME --> ... <!-- bench: end -->
BLOCK = re.compile(r"(<!-- bench: ([\w-]+) -->\n).*?(<!-- bench: end -->)", re.DOTALL)


def sections(document: Document) -> dict[str, list[Table]]:
    """Return name of a block -> tables, for the subjects that were measured."""
    found: dict[str, list[Table]] = {}
    for bundle in document.get("life", {}):
        prefix = "" if bundle == PLAIN else f"{bundle}-"
        found[f"{prefix}life"] = [tables.life(document, bundle)]
        found[f"{prefix}spread"] = [tables.spreads(document, bundle)]
        found[f"{prefix}costs"] = [
            tables.costs(document, bundle, measure) for measure in tables.MEASURES
        ]
    kinds = list(document.get("scaling", {}))
    rest: dict[str, tuple[str, Callable[[], list[Table]]]] = {
        "floor": ("floor", lambda: [tables.floor(document)]),
        "waiting": ("waiting", lambda: [tables.waiting(document)]),
        "scaling": ("scaling", lambda: [tables.scaling(document, kind) for kind in kinds]),
        "seccomp": ("seccomp", lambda: [tables.seccomp(document)]),
        "crowd": ("crowd", lambda: [tables.crowd(document)]),
        "pods": ("pods", lambda: [tables.pods(document)]),
        "idle": ("pods", lambda: [tables.idle(document)]),
        "managers": ("managers", lambda: [tables.managers(document)]),
        "probes": ("probes", lambda: [tables.probes(document)]),
        "node": ("probes", lambda: [tables.node(document)]),
    }
    for name, (subject, make) in rest.items():
        if subject in document:
            found[name] = make()
    if "profile" in document:
        parts = document["profile"]
        titles = {
            "phases": "create: the runtime's phases, wall time",
            "operations": "create: the executor's operations, wall time",
            "create": "create: CPU time",
            "exec": "exec: CPU time",
        }
        for name, title in titles.items():
            values: dict[str, float] = parts[name]  # type: ignore[literal-required]
            found[f"profile-{name}"] = [tables.profile(title, values, "ms")]
    return found


def conditions(document: Document) -> str:
    """Return the machine and the rounds, in a line."""
    text = f"{document['machine']}; {document['rounds']} rounds, alternating."
    return f"{text} {document['note']}" if document.get("note") else text


def blocks(document: Document) -> dict[str, str]:
    """Return name of a block -> its Markdown; names of results from the test VM start with v2-."""
    found = _blocks(document)
    if "v2" in document:
        found |= {f"v2-{name}": text for name, text in _blocks(document["v2"]).items()}
    return found


def _blocks(document: Document) -> dict[str, str]:
    found = {
        name: "\n\n".join(map(tables.as_markdown, made))
        for name, made in sections(document).items()
    }
    return found | {"conditions": conditions(document)}


def as_text(document: Document) -> str:
    """Return all tables for a terminal."""
    made = [table for tables_of_one in sections(document).values() for table in tables_of_one]
    text = "\n\n".join([*map(tables.as_text, made), conditions(document)])
    if "v2" in document:
        text += f"\n\n--- cgroup v2 ---\n\n{as_text(document['v2'])}"
    return text


def as_markdown(document: Document) -> str:
    """Return the tables of subject life as Markdown, with the conditions below."""
    found = blocks(document)
    return "\n\n".join(text for name, text in found.items() if name != "conditions") + (
        f"\n\n{found['conditions']}\n"
    )


def picture(document: Document) -> str:
    """Return an SVG chart of the medians of subject life with the plain configuration."""
    bundle = PLAIN if PLAIN in document["life"] else DOCKER
    title = "Median time of each command, milliseconds (shorter is better)"
    return chart.bars(title, tables.medians(document, bundle), [*COMMANDS, WHOLE])


def fill(page: str, found: dict[str, str]) -> str:
    """Return the page with its marked blocks replaced; a block that was not measured stays."""

    def replaced(match: re.Match[str]) -> str:
        text = found.get(match[2])
        return match[0] if text is None else f"{match[1]}{text}\n{match[3]}"

    return BLOCK.sub(replaced, page)


def marks(page: str) -> set[str]:
    """Return the names of a page's blocks."""
    return {match[2] for match in BLOCK.finditer(page)}
