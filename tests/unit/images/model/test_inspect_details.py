"""``image inspect`` and ``history`` for any configuration that an image may have."""

from __future__ import annotations

from typing import Any

from ociruntime.images.model.image import Image, Layer
from ociruntime.images.model.inspect_details import details
from ociruntime.pods.cli.images import history_table


def image(config: dict[str, Any], *sizes: int, names: tuple[str, ...] = ()) -> Image:
    layers = tuple(Layer(f"sha256:{n}", n, "", f"sha256:diff{n}", "gzip") for n in sizes)
    return Image(
        id="sha256:1",
        name="",
        names=names,
        manifest={},
        config=config,
        config_digest="sha256:2",
        layers=layers,
        chain_id="",
        size=sum(sizes),
        imported=0,
        used=0,
        index="",
    )


def history(*steps: object, sizes: tuple[int, ...]) -> list[tuple[str, int]]:
    found = details(image({"history": list(steps)}, *sizes))["history"]
    return [(step["created_by"], step["size"]) for step in found]


def test_names() -> None:
    found = details(image({}, names=("a/b:1", "a/b@sha256:0")))
    assert (found["repo_tags"], found["repo_digests"]) == (["a/b:1"], ["a/b@sha256:0"])


def test_members_of_wrong_types_are_empty() -> None:
    found = details(image({"author": 7, "config": [], "history": {}, "os": None}, 5))
    assert (found["author"], found["os"], found["config"]) == ("", "", {})
    assert len(found["history"]) == 1


def test_steps_without_layers_take_none() -> None:
    add, env, run = (
        {"created_by": "ADD"},
        {"created_by": "ENV", "empty_layer": True},
        {"created_by": "RUN"},
    )
    assert history(add, env, run, sizes=(3, 4)) == [("ADD", 3), ("ENV", 0), ("RUN", 4)]


def test_history_and_layers_that_differ() -> None:
    assert history({"created_by": "ADD"}, "no object", sizes=(3,)) == [("ADD", 3), ("", 0)]
    assert history({"created_by": "ADD"}, sizes=(3, 4)) == [("ADD", 3), ("", 4)]


def test_the_table_is_short_and_plain() -> None:
    steps = [
        {"created": "2026-01-01T00:00:00.5Z", "created_by": "ADD", "comment": "", "size": 2000},
        {"created": "", "created_by": "\x1b[2J" + "x" * 60, "comment": "\n", "size": 0},
    ]
    _, newest, oldest = history_table(steps, full=False).splitlines()
    assert newest.split() == ["-", "\\x1b[2J" + "x" * 37 + "…", "0", "B", "\\n"]
    assert oldest.split()[0] == "2026-01-01T00:00:00"
    assert "x" * 60 in history_table(steps, full=True)
