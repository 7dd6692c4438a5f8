"""Tables of a bench's document."""

from __future__ import annotations

from bench import tables
from bench.document import COMMANDS
from tests.unit.bench.examples import OWN, PEER, document


def test_text_is_in_columns() -> None:
    text = tables.as_text([["ms", "create"], ["ociruntime", "1.0"]])
    assert text == "ms          create\nociruntime     1.0"


def test_markdown() -> None:
    text = tables.as_markdown([["ms", "create"], ["runc", "1.0"]])
    assert text == "| ms | create |\n| --- | ---: |\n| runc | 1.0 |"


def test_life_has_medians_and_ratios() -> None:
    head, own, peer, ratios = tables.life(document(), "plain")
    assert head == ["median ms", *COMMANDS, "whole"]
    assert own == [OWN, *["2.0"] * len(COMMANDS), "10.0"]
    assert peer == [PEER, *["4.0"] * len(COMMANDS), "20.0"]
    assert ratios == ["ociruntime / runc", *["0.50"] * (len(COMMANDS) + 1)]


def test_one_program_is_not_compared_with_itself() -> None:
    found = document()
    found["runtimes"][1]["path"] = found["runtimes"][0]["path"]
    assert len(tables.life(found, "plain")) == 3


def test_two_checkouts_are_compared() -> None:
    found = document()
    before = f"{OWN} (/before/ociruntime)"
    found["runtimes"][1] = {"name": before, "path": "/before", "version": OWN, "own": True}
    found["life"]["plain"][before] = found["life"]["plain"][PEER]
    assert tables.life(found, "plain")[3][:2] == [f"{OWN} / {before}", "0.50"]


def test_spreads() -> None:
    rows = tables.spreads(document(), "plain")
    assert rows[0][1:] == [OWN, PEER]
    assert rows[1] == ["create", "2.0 (1.5-2.5) 1.0", "4.0 (3.5-4.5) 3.0"]
    assert rows[-1][0] == "whole"


def test_costs() -> None:
    assert tables.costs(document(), "plain", "cpu")[1][:2] == [OWN, "1.0"]
    assert tables.costs(document(), "plain", "faults")[1][:2] == [OWN, "100"]
    assert tables.costs(document(), "plain", "memory")[1][:2] == [OWN, "2.0"]


def test_floor() -> None:
    assert tables.floor(document())[1] == ["busybox true", "2.00", "1.0", "100", "2.0"]


def test_waiting() -> None:
    assert tables.waiting(document())[1] == [OWN, "100", "200", "1.0", "2.0"]


def test_scaling() -> None:
    """The table has the least time of each count, and no verdict where one is missing."""
    head, own, peer = tables.scaling(document(), "bind mounts")
    assert head[1:] == ["10", "100", "1000", "2000", "µs each, 100-1000", "µs each, 1000-2000",
                        "growth"]  # fmt: skip
    assert own == [OWN, "11.0", "20.0", "110.0", "210.0", "100", "100", "linear"]
    assert peer == [PEER, "10.0", "20.0", "110.0", "failed", "100", "", ""]


def test_seccomp_compares_within_a_round() -> None:
    _, own, _ = tables.seccomp(document())
    assert own == [OWN, "21.0", "11.5", "10.5", "10.5", "1.0"]


def test_crowd() -> None:
    head, own, peer = tables.crowd(document())
    assert head[0] == "10 at once, ms"
    assert own == [OWN, "100", "10.0", "20", "0"]
    assert peer == [PEER, "300", "30.0", "", "10"]


def test_pods() -> None:
    assert tables.pods(document())[1] == [
        "ocipod",
        "41.0 (40.5-41.5) 40.0",
        "51.0 (50.5-51.5) 50.0",
    ]
    assert tables.idle(document())[1] == ["ocipod", "5000", "40", "ocipod-init 40"]


def test_profile_sums_up_what_is_small() -> None:
    rows = tables.profile("create", document()["profile"]["create"], "ms")
    assert rows[1] == ["runtime: page faults", "3.00", "100%"]
    assert rows[2][1:] == ["0.01", "0%"]
    assert rows[3] == ["together", "3.01", "100%"]


def test_profile_of_nothing() -> None:
    assert tables.profile("exec", {}, "ms") == [["exec", "ms", "share"]]


def test_managers() -> None:
    head, times, memory = tables.managers(document())
    assert head[1:] == ["ocictl", "docker", "ocictl / docker"]
    assert times == ["ps", "21.0 (20.5-21.5) 20.0", "42.0 (41.0-43.0) 40.0", "0.50"]
    assert memory == ["daemon with 500 containers, MiB", "40", "", ""]


def test_probes() -> None:
    """The columns are the runtimes; minutes are one after another."""
    head, *rows = tables.probes(document())
    found = {row[0]: row[1:] for row in rows}
    assert head == ["20 probes a second, 2 minutes", OWN, PEER]
    assert found["p50, ms"] == ["21.0", "40.0"]
    assert found["p99, ms"] == ["90.0", "44.0"]
    assert found["p50 of the last minute, ms"] == ["21.0", "44.0"]
    assert found["CPU per probe, ms"] == ["11.0", "30.0"]
    assert found["shim: PSS, KiB"] == ["100 to 120", "200 to 200"]
    assert found["left behind"] == ["0", "1"]


def test_node() -> None:
    found = {row[0]: row[1:] for row in tables.node(document())}
    assert found["pod with one container"] == [OWN, PEER]
    assert found["start, ms"] == ["100.0 (100.0-100.0) 100.0", "200.0 (200.0-200.0) 200.0"]
    assert found["running: PSS of containerd-shim, KiB"] == ["7000", "7000"]
    assert found["running: in the state root, KiB"] == ["16", "16"]
