"""config.md: process.capabilities, noNewPrivileges, apparmorProfile, selinuxLabel."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.bundle import ABSENT, Bundle, Json
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

NUMBERS = {"CAP_CHOWN": 0, "CAP_KILL": 5, "CAP_NET_BIND_SERVICE": 10, "CAP_AUDIT_WRITE": 29}
KINDS = ("bounding", "effective", "permitted", "inheritable", "ambient")
SOME = ("CAP_CHOWN", "CAP_KILL", "CAP_AUDIT_WRITE")
PR_CAPBSET_DROP = 24
UNKNOWN = "conformance-nonsense"


def mask(*names: str) -> int:
    """Return these capabilities as a bit mask, as in /proc/PID/status."""
    return sum(1 << NUMBERS[name] for name in names)


def with_sets(c: Context, uid: int, **sets: object) -> Bundle:
    """Return a bundle whose process has exactly these capability sets."""
    process: Json = {"user": {"uid": uid, "gid": uid}, "capabilities": ABSENT}
    bundle = c.bundle(process=process)
    bundle.process["capabilities"] = sets
    return bundle


def logged(c: Context, bundle: Bundle, **more: Any) -> tuple[Container, str]:
    """Create a container; return it and all that the runtime wrote to stderr and its log."""
    log = c.directory / f"log{c.id()}"
    c.runtime = replace(c.runtime, options=(*c.runtime.options, "--log", str(log)))
    box, result = c.attempt_create(bundle, **more)
    c.expect(result.ok, f"create failed: {result.complaint}")
    return box, result.err + (log.read_text() if log.exists() else "")


@case("CFG-CAP-01")
def unknown_capability(c: Context) -> None:
    """An unknown capability causes a warning, and the others are granted."""
    names = ["CAP_KILL", "CAP_BOGUS"]
    bundle = with_sets(c, 0, bounding=names, effective=names, permitted=names)
    bundle.does("facts")
    usual = logged(c, with_sets(c, 0, bounding=["CAP_KILL"]))[1]
    box, text = logged(c, bundle)
    c.expect(len(text) > len(usual), "no warning: nothing more is logged than otherwise")
    box.start()
    c.equal(box.wait_for_reports()[0]["capabilities"]["effective"], mask("CAP_KILL"), "effective")


def without_audit_write() -> None:
    """Drop CAP_AUDIT_WRITE in the runtime's process, so that it cannot grant it."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, NUMBERS["CAP_AUDIT_WRITE"], 0, 0, 0)


def ungrantable(c: Context) -> Bundle:
    """Return a bundle that requests a capability which the runtime itself lacks."""
    c.need_root("as an ordinary user the container has all in its user namespace")
    names = ["CAP_KILL", "CAP_AUDIT_WRITE"]
    return with_sets(c, 0, bounding=names, effective=names, permitted=names)


@case("CFG-CAP-01")
def ungrantable_warning(c: Context) -> None:
    """A capability that the runtime cannot grant causes a warning."""
    usual = logged(c, with_sets(c, 0, bounding=["CAP_KILL"]))[1]
    _, text = logged(c, ungrantable(c), before=without_audit_write)
    c.expect(len(text) > len(usual), "no warning: nothing more is logged than otherwise")


@case("CFG-CAP-02")
def ungrantable_runs(c: Context) -> None:
    """A capability that the runtime cannot grant is omitted, and the container runs."""
    sets = c.probe(ungrantable(c), before=without_audit_write)["capabilities"]
    c.equal(sets["effective"], mask("CAP_KILL"), "effective set")


@case("CFG-CAP-03")
def capabilities_of_user(c: Context) -> None:
    """A non-root program has the five capability sets as listed."""
    c.need_root("needs a second user")
    one = ["CAP_KILL"]
    bundle = with_sets(
        c,
        1000,
        bounding=list(SOME),
        effective=one,
        permitted=one,
        inheritable=["CAP_CHOWN", *one],
        ambient=one,
    )
    wanted = dict.fromkeys(KINDS, mask("CAP_KILL"))
    wanted |= {"bounding": mask(*SOME), "inheritable": mask("CAP_KILL", "CAP_CHOWN")}
    c.equal(c.probe(bundle)["capabilities"], wanted, "sets")


@case("CFG-CAP-03")
def capabilities_of_root(c: Context) -> None:
    """A program run as root has the five capability sets as listed."""
    listed = {kind: list(SOME) for kind in ("bounding", "effective", "permitted")}
    bundle = with_sets(c, 0, **listed, inheritable=["CAP_KILL"], ambient=["CAP_KILL"])
    wanted = dict.fromkeys(listed, mask(*SOME))
    wanted |= {"inheritable": mask("CAP_KILL"), "ambient": mask("CAP_KILL")}
    c.equal(c.probe(bundle)["capabilities"], wanted, "sets")


@case("CFG-CAP-03")
def no_ambient(c: Context) -> None:
    """A non-root program has no effective capabilities without the ambient set."""
    c.need_root("needs a second user")
    kinds = ("bounding", "effective", "permitted", "inheritable")
    bundle = with_sets(c, 1000, **{kind: list(SOME) for kind in kinds})
    wanted = dict.fromkeys(KINDS, 0) | dict.fromkeys(("bounding", "inheritable"), mask(*SOME))
    c.equal(c.probe(bundle)["capabilities"], wanted, "sets")


@table(("no sets", {}), ("empty sets", {kind: [] for kind in KINDS}), ids="CFG-CAP-03")
def no_capabilities(c: Context, _name: str, sets: Json) -> None:
    """A program run as root has no capabilities if none are listed ({0})."""
    c.equal(c.probe(with_sets(c, 0, **sets))["capabilities"], dict.fromkeys(KINDS, 0), "sets")


@table(("true", True, 1), ("false", False, 0), ("absent", ABSENT, 0), ids="CFG-NNP-01")
def no_new_privileges(c: Context, _name: str, value: object, bit: int) -> None:
    """The program's no_new_privs bit matches noNewPrivileges ({0})."""
    facts = c.probe(c.bundle(process={"noNewPrivileges": value}))
    c.equal(facts["no_new_privs"], bit, "no_new_privs")


@table(("true", True, 1000), ("false", False, 0), ids="CFG-NNP-01")
def set_user_id(c: Context, _name: str, value: bool, euid: int) -> None:
    """A setuid program gains privileges unless noNewPrivileges is true ({0})."""
    c.need_root("needs a second user")
    bundle = c.bundle("exec /bin/suid suid facts")
    bundle.change(process={"user": {"uid": 1000, "gid": 1000}, "noNewPrivileges": value})
    copy = bundle.rootfs / "bin/suid"
    copy.write_bytes(bundle.probe.read_bytes())
    copy.chmod(0o4755)
    reports = c.run(bundle).reports
    c.expect(reports, "the set-user-ID program did not run")
    c.equal(reports[0]["euid"], euid, "effective user")


def label_of(c: Context, module: str, **process: str) -> str:
    """Return the security label of the program."""
    path = "/proc/self/attr/apparmor/current" if module == "apparmor" else "/proc/self/attr/current"
    read = c.probe(c.bundle(process=process), f"read={path}")["read"][path]
    return str(read).rstrip("\0\n")


def need_module(c: Context, name: str) -> None:
    """Skip if the kernel does not have this security module."""
    if name not in c.host.security_modules:
        c.skip(f"the kernel has no {name}")


@case("CFG-AA-01")
def apparmor_profile(c: Context) -> None:
    """The program has the given AppArmor profile."""
    need_module(c, "apparmor")
    c.need_root("needs to read the loaded profiles")
    loaded = Path("/sys/kernel/security/apparmor/profiles").read_text().splitlines()
    names = [line.rpartition(" ")[0] for line in loaded if line.endswith("(complain)")]
    if not names:
        c.skip("no AppArmor profile is loaded that only complains")
    label = label_of(c, "apparmor", apparmorProfile=names[0])
    c.equal(label.rpartition(" ")[0], names[0], "profile")


@case("CFG-SEL-01")
def selinux_label(c: Context) -> None:
    """The program has the given SELinux label."""
    need_module(c, "selinux")
    own = Path("/proc/self/attr/current").read_text().rstrip("\0\n")
    wanted = own.rpartition(":")[0] + ":s0:c1,c2"
    c.equal(label_of(c, "selinux", selinuxLabel=wanted), wanted, "label")


@table(("CFG-AA-01", "apparmor", "apparmorProfile"), ("CFG-SEL-01", "selinux", "selinuxLabel"))
def unknown_label(c: Context, module: str, name: str) -> None:
    """A value of {1} that is unknown to the kernel is an error."""
    need_module(c, module)
    c.refused(c.bundle(process={name: UNKNOWN}), name, or_start=True)
