"""Run random configs under several runtimes, and reduce each difference to a minimal config."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from conformance.bundle import Json
from conformance.case import Case
from conformance.clauses import version_key
from conformance.deviations import plain
from conformance.difference import known
from conformance.difference.configs import generate, smaller
from conformance.difference.edits import Edits
from conformance.difference.known import Known, unexplained
from conformance.difference.observe import Facts, observe
from conformance.driver import Runtime, tell_apart
from conformance.program import NoProbe, probe_path
from conformance.runner.outcome import SKIP
from conformance.runner.pool import Pool, Settings
from conformance.runner.versions import accepted
from conformance.template import config

Observed = dict[str, Facts]
BATCH = 20  # configs to run in parallel


@dataclass(frozen=True)
class Difference:
    """A difference: the minimal edits that show it, and fact -> runtime -> value.

    ``number`` is that of the random config, 0 for the minimal config.
    """

    number: int
    edits: Edits
    facts: dict[str, Facts]

    def as_json(self, version: str) -> Json:
        """Return the difference as a JSON object, with the whole config."""
        document = config(version, "/difference", rootless=os.geteuid() != 0)
        for edit in self.edits:
            edit.apply(document)
        return {
            "number": self.number,
            "edits": [str(edit) for edit in self.edits],
            "facts": self.facts,
            "config": document,
        }

    def as_text(self) -> str:
        """Return the difference as text."""
        lines = [f"config {self.number}: " + ("" if self.edits else "the plain config")]
        lines += [f"  {edit}" for edit in self.edits]
        for fact, values in self.facts.items():
            lines.append(f"    {fact}")
            lines += [f"      {label}: {plain(str(value))}" for label, value in values.items()]
        return "\n".join(lines)


def differing(observed: Observed) -> dict[str, Facts]:
    """Return the facts that differ between runtimes, as fact -> runtime -> value.

    The fact ``result`` includes the reason of a failure.  All others are compared only between
    the runtimes that ran the container.
    """
    found: dict[str, Facts] = {}
    if len({facts["result"] for facts in observed.values()}) > 1:
        found["result"] = {
            label: " ".join(str(facts.get(key, "")) for key in ("result", "message")).strip()
            for label, facts in observed.items()
        }
    running = {label: facts for label, facts in observed.items() if facts["result"] == "runs"}
    names = dict.fromkeys(name for facts in running.values() for name in facts)
    for name in names:
        values = {label: facts.get(name) for label, facts in running.items()}
        if (
            name != "message"
            and len({json.dumps(one, sort_keys=True) for one in values.values()}) > 1
        ):
            found[name] = values
    return found


class Hunt:
    """A search for differences between ``runtimes``, with configs of one ``ociVersion``."""

    def __init__(
        self,
        runtimes: Sequence[Runtime],
        settings: Settings,
        version: str,
        known: Sequence[Known] = (),
    ) -> None:
        self.runtimes = [replace(one, versions=(version,)) for one in runtimes]
        self.settings = settings
        self.version = version
        self.known = list(known)
        self.seen: dict[Edits, Observed] = {}

    def observe(self, configs: Sequence[Edits]) -> list[dict[str, Facts]]:
        """Return each config's unknown differences; run only those that have not been run yet."""
        new = [one for one in dict.fromkeys(configs) if one not in self.seen]
        pairs = []
        for number, edits in enumerate(new):
            function = partial(observe, version=self.version, edits=edits)
            case = Case(str(number), "diff", ("CFG-VER-03",), "facts", function)
            pairs += [(case, runtime) for runtime in self.runtimes]
            self.seen[edits] = {}
        for outcome in Pool(self.settings).run(pairs):
            facts: Facts = {"result": "no facts", "message": outcome.text}
            if outcome.status == SKIP:
                facts = json.loads(outcome.message)
            facts["left behind"] = bool(outcome.left)
            number = int(outcome.case.rpartition("::")[2])
            self.seen[new[number]][outcome.runtime] = facts
        order = [one.label for one in self.runtimes]
        return [
            unexplained(
                differing({label: self.seen[one][label] for label in order}), one, self.known
            )
            for one in configs
        ]

    def shrink(self, edits: Edits, fact: str) -> Edits:
        """Return the smallest edits that still show a difference of that fact."""
        while True:
            candidates = list(smaller(edits))
            found = self.observe(candidates) if candidates else []
            fitting = [one for one, facts in zip(candidates, found, strict=True) if fact in facts]
            if not fitting:
                return edits
            edits = fitting[0]

    def run(self, seed: int, count: int) -> Iterator[Difference]:
        """Try ``count`` random configs; yield each new difference.

        Facts that differ for the minimal config are reported once, and then ignored.
        """
        plain_facts = self.observe([()])[0]
        if plain_facts:
            yield Difference(0, (), plain_facts)
        everywhere = set(plain_facts)
        reported: set[Edits] = set()
        configs = [generate(random.Random(f"{seed}/{number}")) for number in range(1, count + 1)]
        for number, edits in enumerate(configs, 1):
            if number % BATCH == 1:
                self.observe(configs[number - 1 : number - 1 + BATCH])
            facts = self.observe([edits])[0]
            open_facts = [fact for fact in facts if fact not in everywhere]
            while open_facts:
                fact = open_facts[0]
                small = self.shrink(edits, fact)
                shown = {k: v for k, v in self.observe([small])[0].items() if k not in everywhere}
                open_facts = [one for one in open_facts if one not in shown]
                if small not in reported:
                    reported.add(small)
                    yield Difference(number, small, shown)


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of ``diff``."""
    made = argparse.ArgumentParser(prog="oci-conformance diff", description=__doc__)
    add = made.add_argument
    words = "two or more runtimes to compare, paths or names"
    add("--runtimes", required=True, metavar="A,B,...", help=words)
    words = "seed of the random configs (default: %(default)s)"
    add("--seed", type=int, default=1, metavar="N", help=words)
    words = "configs to try (default: %(default)s)"
    add("--count", type=int, default=50, metavar="N", help=words)
    words = "containers to run in parallel (default: %(default)s)"
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help=words)
    words = "file of known differences (default: the kit's own)"
    add("--known", type=Path, default=known.FILE, metavar="FILE", help=words)
    add("--json", metavar="FILE", help="write the differences as JSON")
    return made


def usable(runtimes: Sequence[Runtime], settings: Settings) -> tuple[list[Runtime], str]:
    """Return the runtimes that work on this host, and the newest version that all accept."""
    found = []
    for one in accepted(runtimes, settings):
        if one.versions:
            found.append(one)
        else:
            print(f"skipping {one.label}: cannot create any container here", file=sys.stderr)
    common = set.intersection(*(set(one.versions) for one in found)) if found else set()
    if len(found) < 2 or not common:
        raise SystemExit("oci-conformance: diff: no two runtimes accept the same ociVersion")
    return found, max(common, key=version_key)


def main(arguments: Sequence[str]) -> int:
    """Run ``diff``; return 0 if no difference was found, else 1.  Exit with 2 for wrong usage."""
    from conformance.cli import find_runtime

    options = parser().parse_args(arguments)
    try:
        explained = known.load(options.known)
    except (OSError, ValueError, TypeError) as error:
        raise SystemExit(f"oci-conformance: {options.known}: {error}") from None
    words = [word for word in options.runtimes.split(",") if word]
    runtimes = tell_apart([find_runtime(word, ()) for word in words])
    if len({one.path for one in runtimes}) < 2:
        parser().error("--runtimes: must have at least two different runtimes")
    try:
        settings = Settings(probe=probe_path(), jobs=max(1, options.jobs))
    except NoProbe as error:
        raise SystemExit(f"oci-conformance: {error}") from None
    runtimes, version = usable(runtimes, settings)
    found = []
    for one in Hunt(runtimes, settings, version, explained).run(options.seed, options.count):
        print(one.as_text(), flush=True)
        found.append(one.as_json(version))
    print(
        f"{options.count} configs of version {version}, {len(found)} differences", file=sys.stderr
    )
    if options.json:
        document = {
            "runtimes": [one.label for one in runtimes],
            "seed": options.seed,
            "count": options.count,
            "version": version,
            "differences": found,
        }
        Path(options.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if found else 0
