"""features-linux.md: the document's claims about Linux, and whether they are true."""

from __future__ import annotations

import socket
from typing import Any

from conformance import isolation
from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.cases.linux_namespaces import FILES, own, with_new
from conformance.clauses import version_key
from conformance.context import Context
from conformance.features_document import member
from conformance.recognition import unrecognized

# capability.h: number of each by its place.
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE "
    "NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO "
    "SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME "
    "SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG "
    "WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
).split()
NO_NODES = ("MPOL_DEFAULT", "MPOL_LOCAL")


def told(c: Context, path: str) -> Any:
    """Return a property, for example ``linux.seccomp.actions``; skip if it is missing."""
    value = member(c.features(), path)
    if value is None:
        c.skip(f"{path} is not told")
    return value


@case("FEATL-01")
def listed_namespaces(c: Context) -> None:
    """A namespace of each listed type can be created."""
    for kind in told(c, "linux.namespaces"):
        c.expect(kind in FILES, f"there is no namespace of type {kind}")
        if kind == "time" and c.host.kernel < (5, 6):
            continue
        box = c.started(with_new(c, kind))
        c.expect(box.namespace(FILES[kind]) != own(kind), f"{kind} is listed, but not new")
        box.delete("--force")


@case("FEATL-01", "FEAT-02")
def unlisted_namespaces(c: Context) -> None:
    """A namespace type that is missing from the list is rejected."""
    listed = told(c, "linux.namespaces")
    for kind in sorted(set(FILES) - set(listed)):
        c.refused(with_new(c, kind), f"{kind} namespace, which is not listed")


def capabilities_to_give(c: Context) -> list[str]:
    """Return the listed capabilities that the host has; fail if one does not exist."""
    c.need_root()
    given = []
    for name in told(c, "linux.capabilities"):
        plain = name.removeprefix("CAP_")
        c.expect(name.startswith("CAP_") and plain in CAPABILITIES, f"no capability: {name}")
        if c.host.capabilities >> CAPABILITIES.index(plain) & 1:
            given.append(name)
    return given


@case("FEATL-02")
def listed_capabilities(c: Context) -> None:
    """The program gets each listed capability that the host has."""
    names = capabilities_to_give(c)
    box = c.run(c.bundle().args("/bin/probe", "facts").capabilities(*names))
    got = box.reports[0]["capabilities"]["effective"]
    missing = [n for n in names if not got >> CAPABILITIES.index(n.removeprefix("CAP_")) & 1]
    c.equal(missing, [], "listed capabilities that the program has not")


@case("FEATL-02")
def no_warning_of_listed(c: Context) -> None:
    """A listed capability does not cause a warning."""
    names = capabilities_to_give(c)
    created = c.create(c.bundle().capabilities(*names)).created
    warning = created.err if created else ""
    c.equal([name for name in names if name in warning], [], "capabilities that are warned of")


@table(("v1",), ("v2",), ("systemd",), ("systemdUser",), ("rdma",), ids="FEATL-03")
def cgroup_told(c: Context, kind: str) -> None:
    """Support for {0} cgroups is reported as a boolean, if it is reported at all."""
    value = told(c, f"linux.cgroup.{kind}")
    c.expect(isinstance(value, bool), f"linux.cgroup.{kind} is {value!r}")


@case("FEATL-03")
def cgroup_told_truly(c: Context) -> None:
    """Containers have cgroups of the host's version if and only if features says so."""
    c.need_root()
    mode = "v2" if c.host.cgroup_mode == "v2" else "v1"
    if c.host.cgroup_mode == "none":
        c.skip("the host has no control groups")
    claimed = told(c, f"linux.cgroup.{mode}")
    box, result = c.attempt_create()
    if not result.ok:
        box.deleted = True
        c.expect(not claimed, f"{mode} is claimed, but create fails: {result.complaint}")
        return
    inside = any(c.token in str(path) for path in box.cgroups().values())
    c.equal(inside, claimed, f"a control group {mode} for the container")


def with_seccomp(c: Context, **changes: Any) -> Bundle:
    """Return a bundle with a seccomp filter that has a rule for acct.

    Changes override members of the filter, and ``rule`` those of the rule.
    """
    rule: Json = {"names": ["acct"], "action": "SCMP_ACT_ERRNO"}
    seccomp: Json = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    rule.update(changes.pop("rule", {}))
    return c.bundle(linux={"seccomp": seccomp | changes})


@case("FEATL-04")
def listed_actions(c: Context) -> None:
    """Each listed seccomp action is recognized."""
    listed = told(c, "linux.seccomp.actions")
    path = c.directory / "agent"
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        agent.listen(8)

        def make(action: str) -> Bundle:
            more = {"listenerPath": str(path)} if action == "SCMP_ACT_NOTIFY" else {}
            return with_seccomp(c, rule={"action": action}, **more)

        found = unrecognized(c, listed, "SCMP_ACT_BOGUS", make)
    c.equal(found, [], "actions that are not recognized")


@table(
    ("SCMP_ACT_ERRNO", 0, "EPERM"),
    ("SCMP_ACT_KILL_PROCESS", -31, None),
    ("SCMP_ACT_TRAP", -31, None),
    ("SCMP_ACT_TRACE", 0, "ENOSYS"),
    ids="FEATL-04",
)
def action_works(c: Context, action: str, status: int, error: str | None) -> None:
    """The seccomp action {0}, if listed, has its intended effect."""
    if action not in told(c, "linux.seccomp.actions"):
        c.skip(f"{action} is not listed")
    box = c.run(with_seccomp(c, rule={"action": action}).does("syscall acct 0"))
    c.equal(box.exit_status, status, "exit status")
    if error is not None:
        c.equal(box.reports[0]["error"], error, "error of the call")


@case("FEATL-05")
def listed_operators(c: Context) -> None:
    """Each listed seccomp operator is recognized."""
    listed = told(c, "linux.seccomp.operators")

    def make(operator: str) -> Bundle:
        return with_seccomp(c, rule={"args": [{"index": 0, "value": 1, "op": operator}]})

    c.equal(unrecognized(c, listed, "SCMP_CMP_BOGUS", make), [], "operators not recognized")


@case("FEATL-06")
def listed_architectures(c: Context) -> None:
    """Each listed seccomp architecture is recognized."""
    listed = told(c, "linux.seccomp.archs")
    found = unrecognized(
        c, listed, "SCMP_ARCH_BOGUS", lambda arch: with_seccomp(c, architectures=[arch])
    )
    c.equal(found, [], "architectures not recognized")


@case("FEATL-07")
def known_flags(c: Context) -> None:
    """Each known seccomp flag is recognized."""
    listed = told(c, "linux.seccomp.knownFlags")
    found = unrecognized(
        c, listed, "SECCOMP_FILTER_FLAG_BOGUS", lambda flag: with_seccomp(c, flags=[flag])
    )
    c.equal(found, [], "flags not recognized")


@case("FEATL-08")
def supported_flags(c: Context) -> None:
    """A container runs under its filter with each supported seccomp flag."""
    for name in told(c, "linux.seccomp.supportedFlags"):
        if name == "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV":
            continue  # The kernel takes it with a listener only.
        box = c.run(with_seccomp(c, flags=[name]).does("syscall acct 0"))
        c.equal(box.reports[0]["error"], "EPERM", f"the filter's effect with {name}")


@case("FEATL-08")
def supported_flags_are_known(c: Context) -> None:
    """Each supported seccomp flag is also a known one."""
    supported = set(told(c, "linux.seccomp.supportedFlags"))
    c.equal(supported - set(told(c, "linux.seccomp.knownFlags")), set(), "unknown ones")


@table(("apparmor",), ("selinux",), ("seccomp",), ids="FEATL-09")
def security_told(c: Context, name: str) -> None:
    """Support for {0} is reported."""
    value = member(c.features(), f"linux.{name}.enabled")
    c.expect(isinstance(value, bool), f"linux.{name}.enabled is {value!r}")


def with_policy(c: Context, mode: str, *flags: str) -> Bundle:
    """Return a bundle with a memory policy for the first NUMA node."""
    policy: Json = {"mode": mode, "flags": list(flags)}
    if mode not in NO_NODES:
        policy["nodes"] = "0"
    return c.bundle(linux={"memoryPolicy": policy})


@case("FEATL-10")
def listed_modes(c: Context) -> None:
    """Each listed memory policy mode is recognized."""
    listed = told(c, "linux.memoryPolicy.modes")
    found = unrecognized(c, listed, "MPOL_BOGUS", lambda mode: with_policy(c, mode))
    c.equal(found, [], "modes not recognized")


@case("FEATL-11")
def listed_flags(c: Context) -> None:
    """Each listed memory policy flag is recognized."""
    listed = told(c, "linux.memoryPolicy.flags")
    found = unrecognized(c, listed, "MPOL_F_BOGUS", lambda flag: with_policy(c, "MPOL_BIND", flag))
    c.equal(found, [], "flags not recognized")


@table(("enabled", "1.1.0"), ("schemata", "1.3.0"), ("monitoring", "1.3.0"), ids="FEATL-12")
def intel_rdt_told(c: Context, name: str, since: str) -> None:
    """Support for Intel RDT ({0}) is reported from version {1} on."""
    found = c.features()
    if version_key(str(found.get("ociVersionMax"))) < version_key(since):
        c.skip(f"the runtime claims a version before {since}")
    value = member(found, f"linux.intelRdt.{name}")
    c.expect(isinstance(value, bool), f"linux.intelRdt.{name} is {value!r}")


@case("FEATL-13")
def idmap_told_truly(c: Context) -> None:
    """Id-mapped mounts work if and only if features says so.

    Mappings of one ID and of a range are tried.  A runtime may reject one of them, since it need
    not support every valid value.
    """
    c.need_root()
    c.need_kernel(6, 3)
    claimed = told(c, "linux.mountExtensions.idmap.enabled")
    honoured = [is_id_mapped(c, size) for size in (1, 65536)]
    c.expect(False not in honoured, "a mount with id mappings was made without them")
    c.equal(True in honoured, claimed, "whether a mount was id-mapped")


def is_id_mapped(c: Context, size: int) -> bool | None:
    """Return whether a mount with ``size`` mapped IDs is id-mapped; None if it is rejected."""
    source = c.directory / "source"
    source.mkdir(exist_ok=True)
    isolation.mount("tmpfs", str(source), "tmpfs")
    try:
        (source / "file").touch()
        bundle = (
            c.bundle().bind(source, "/mnt", "idmap").args("/bin/probe", "facts", "stat=/mnt/file")
        )
        mapping = [{"containerID": 0, "hostID": 1000, "size": size}]
        bundle.mounts[-1].update(uidMappings=mapping, gidMappings=mapping)
        box, result = c.attempt_create(bundle)
        if not result.ok:
            box.deleted = True
            return None
        box.start()
        owner = box.wait_for_reports()[0]["stat"]["/mnt/file"].get("uid")
        box.delete("--force")
    finally:
        isolation.unmount(str(source))
    return bool(owner == 1000)


@case("FEATL-14")
def network_devices_told_truly(c: Context) -> None:
    """Network devices are moved if and only if features says so."""
    c.need_root()
    claimed = told(c, "linux.netDevices.enabled")
    c.tool("ip", "link", "add", "oct0", "type", "veth", "peer", "name", "oct1")
    try:
        bundle = c.bundle(linux={"netDevices": {"oct0": {}}}).args("/bin/probe", "facts")
        box, result = c.attempt_create(bundle)
        moved = False
        if result.ok:
            box.start()
            box.wait()
            moved = "oct0" in box.reports[0]["interfaces"]
    finally:
        if "oct1" in {name for _, name in socket.if_nameindex()}:
            c.tool("ip", "link", "del", "oct1", may_fail=True)
    c.equal(moved, claimed, "whether the device moved")
