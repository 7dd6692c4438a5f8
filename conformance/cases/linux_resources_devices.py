"""config-linux.md: allowed device list."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from conformance import cgroups
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context

# Numbers that no driver has: opening says EPERM where forbidden, ENXIO where allowed.
FIRST, SECOND = 100, 101
DENY_ALL = {"allow": False, "access": "rwm"}
BLOCK = {"type": "b", "major": 240, "minor": FIRST}


def rule(minor: int | None, access: str = "rwm", *, allow: bool = True) -> dict[str, Any]:
    """Return a rule for character devices with major number 1.

    If ``minor`` is None, the rule has no minor number.
    """
    entry: dict[str, Any] = {"allow": allow, "type": "c", "major": 1, "access": access}
    return entry if minor is None else entry | {"minor": minor}


def with_rules(c: Context, *rules: dict[str, Any]) -> Bundle:
    """Return a bundle with ``rules`` and the device nodes /out/c100, /out/c101 and /out/b100."""
    c.need_root("needs device nodes")
    if cgroups.version_of("devices") != 1 and c.host.cgroup_mode != "v2":
        c.skip("the host has no devices controller")
    bundle = c.bundle()
    bundle.resources["devices"] = list(rules)
    for kind, major, minor in (("c", 1, FIRST), ("c", 1, SECOND), ("b", 240, FIRST)):
        path = bundle.rootfs / "out" / f"{kind}{minor}"
        form = stat.S_IFCHR if kind == "c" else stat.S_IFBLK
        os.mknod(path, form | 0o666, os.makedev(major, minor))
        path.chmod(0o666)
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError as error:
            if error.errno != errno.ENXIO:
                c.skip(f"device nodes of this test cannot be opened: {error.strerror}")
    return bundle


def allowed(c: Context, bundle: Bundle, asks: str) -> dict[str, bool]:
    """Return whether the program may open each of ``asks``: ``r:c100`` -> bool.

    ``asks`` is separated by spaces.
    """
    words = [f"open={ask.replace(':', ':/out/')}" for ask in asks.split()]
    found = c.probe(bundle, *words)["open"]
    answers = {}
    for ask, word in zip(asks.split(), words, strict=True):
        answer = found[word.removeprefix("open=")]
        error = answer.get("error") if isinstance(answer, dict) else answer
        c.expect(error in ("EPERM", "ENXIO"), f"opening {ask}: {answer!r}")
        answers[ask] = error == "ENXIO"
    return answers


@table(
    ("allow last", [DENY_ALL, rule(FIRST)], True, False),
    ("deny last", [rule(FIRST), DENY_ALL], False, False),
    ("one allowed and denied", [DENY_ALL, rule(FIRST), rule(FIRST, allow=False)], False, False),
    ("one denied and allowed", [DENY_ALL, rule(FIRST, allow=False), rule(FIRST)], True, False),
    ids="LNX-DEVCG-01",
)
def order_of_rules(c: Context, _name: str, rules: Any, first: bool, second: bool) -> None:
    """Device rules apply in the order of the list: {0}."""
    found = allowed(c, with_rules(c, *rules), "r:c100 r:c101")
    c.equal(found, {"r:c100": first, "r:c101": second}, "what may be opened")


@case("LNX-DEVCG-01")
def exception_of_exception(c: Context) -> None:
    """A rule can deny one of the devices that an earlier rule allows.

    Cgroup v1 cannot do that: create may fail there.
    """
    rules = [DENY_ALL, rule(None), rule(SECOND, allow=False)]
    if cgroups.version_of("devices") == 1:
        box, result = c.attempt_create(with_rules(c, *rules))
        if not result.ok:
            box.deleted = True
            return
    found = allowed(c, with_rules(c, *rules), "r:c100 r:c101")
    c.equal(found, {"r:c100": True, "r:c101": False}, "what may be opened")


@case("LNX-DEVCG-01")
def access_of_rule(c: Context) -> None:
    """A rule that allows reading does not allow writing."""
    found = allowed(c, with_rules(c, DENY_ALL, rule(FIRST, "r")), "r:c100 w:c100")
    c.equal(found, {"r:c100": True, "w:c100": False}, "what may be done")


@case("LNX-DEVCG-02")
def rule_without_allow(c: Context) -> None:
    """A device rule without allow is rejected."""
    sound, bad = with_rules(c, rule(FIRST)), with_rules(c, rule(FIRST))
    del bad.resources["devices"][0]["allow"]
    c.refused_beside(sound, bad, "a device rule without allow")


@table(
    ("deny without type", [rule(FIRST), {"allow": False, "access": "rwm"}], False, False, False),
    ("allow without type", [DENY_ALL, {"allow": True, "access": "rwm"}], True, True, True),
    (
        "without numbers",
        [DENY_ALL, {"allow": True, "type": "c", "access": "rwm"}],
        True,
        True,
        False,
    ),
    ("without minor", [DENY_ALL, rule(None)], True, True, False),
    ids="LNX-DEVCG-03",
)
def what_is_not_said(
    c: Context, _name: str, rules: Any, first: bool, second: bool, block: bool
) -> None:
    """A rule matches all values of the properties that it omits: {0}."""
    found = allowed(c, with_rules(c, *rules), "r:c100 r:c101 r:b100")
    c.equal(found, {"r:c100": first, "r:c101": second, "r:b100": block}, "what may be opened")


@table(("x",), ("rx",), ("R",), ("r w",), ids="LNX-DEVCG-04")
def bad_access(c: Context, access: str) -> None:
    """A device rule with the access {0!r} is rejected."""
    bad = with_rules(c, DENY_ALL, rule(FIRST, access))
    c.refused_beside(with_rules(c, DENY_ALL, rule(FIRST)), bad, f"access {access!r}")


@table(("x",), ("C",), ids="LNX-DEVCG-04")
def bad_type(c: Context, kind: str) -> None:
    """A device rule for the type {0!r} is rejected."""
    bad = with_rules(c, DENY_ALL, rule(FIRST) | {"type": kind})
    c.refused_beside(with_rules(c, DENY_ALL, rule(FIRST)), bad, f"type {kind!r}")
