"""Observe a container, as a flat map of facts that does not depend on the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import mounts
from conformance.bundle import Bundle, Json
from conformance.case import Failed, Skipped
from conformance.container import Container
from conformance.context import Context
from conformance.difference.edits import Edits
from conformance.difference.makers import CALLS
from conformance.difference.stage import prepare
from conformance.template import PROBE

Facts = dict[str, Any]
# Facts that differ at each run, or depend on the kit alone.
FLEETING = frozenset(
    "pid ppid pgid sid keyring monotonic_ns boottime_ns realtime_ns argv root".split()
)
STATS = (
    *("/dev/null", "/dev/one", "/dev/sub/two", "/out/three", "/dev/ptmx", "/dev/console"),
    *("/tmp", "/run", "/var", "/var/deep", "/mnt", "/mnt/dir", "/mnt/file", "/usr", "/made"),
    *("/dev/full", "/dev/tty", "/dev/fd", "/dev/stdin", "/dev/pts", "/dev/shm", "/etc", "/sys"),
)
READS = (
    *("/proc/self/oom_score_adj", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/msgmax"),
    *("/proc/sys/fs/mqueue/msg_max", "/etc/passwd", "/proc/self/uid_map", "/proc/self/gid_map"),
    *("/proc/self/setgroups", "/proc/self/coredump_filter"),
)
LISTS = ("/dev", "/", "/sys")
OPENS = (
    *("w:/etc/passwd", "w:/proc/sys/kernel/msgmax", "w:/dev/null", "r:/dev/zero", "w:/dev/zero"),
    *(
        "r:/proc/kcore",
        "b:/dev/one",
        "r:/dev/sub/two",
        "r:/out/three",
        "r:/dev/full",
        "b:/dev/ptmx",
    ),
)
ASKS = (
    *(f"stat={path}" for path in STATS),
    *(f"read={path}" for path in (*READS, "/proc/self/mountinfo")),
    *(f"list={path}" for path in LISTS),
    *(f"open={word}" for word in OPENS),
)
# Calls that have no effect with these arguments but show if a filter blocks them. The odd numbers
# are for filters that check arguments.
TRIED = [
    *(f"syscall {name} 0 0 0 0 0" for name in CALLS if name != "personality"),
    *(
        "syscall chmod 0 7",
        "syscall mkdir 7 0",
        f"syscall chmod {1 << 33} 0",
        "syscall personality 0",
    ),
    f"syscall personality {0xFFFFFFFF}",
]
CONTROL_FILES = {
    "memory": (
        *("memory.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.memsw.limit_in_bytes"),
        *("memory.swappiness", "memory.oom_control", "memory.kmem.tcp.limit_in_bytes"),
        "memory.use_hierarchy",
    ),
    "cpu": (
        *("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.idle"),
        *("cpu.rt_runtime_us", "cpu.rt_period_us"),
    ),
    "cpuset": ("cpuset.cpus", "cpuset.mems"),
    "pids": ("pids.max",),
    "hugetlb": ("hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.rsvd.limit_in_bytes"),
    "": ("cgroup.max.depth", "cgroup.freeze"),
}
HOUR = 3600 * 10**9


def observe(c: Context, version: str, edits: Edits) -> None:
    """Run a config and collect its facts; they are returned as JSON by raising Skipped."""
    bundle = c.bundle().change(ociVersion=version)
    for edit in edits:
        edit.apply(bundle.config)
    words = [*ASKS]
    for action in TRIED:
        words += ["--", *action.split()]
    bundle.args(PROBE, "facts", *words)
    raise Skipped(json.dumps(_facts(c, bundle)))


def _facts(c: Context, bundle: Bundle) -> Facts:
    others = prepare(c, bundle)
    outside = c.probe_on_host().json()
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return {"result": "create fails", "message": result.complaint}
    found: Facts = {"result": "runs", **_of_state(box), **_of_cgroups(box)}
    result = box.attempt("start")
    if not result.ok:
        return {"result": "start fails", "message": result.complaint}
    try:
        box.wait()
    except Failed as failure:
        return {"result": "hangs", "message": str(failure)}
    reports = box.reports
    if not reports:
        return {"result": f"ends with {box.exit_status}", "message": box.err[-200:]}
    for report in reports[1:]:
        found[f"call {report.get('call')} {report.get('arguments')}"] = report.get("error")
    found |= normalised(reports[0], outside, others)
    box.delete()
    return found | _of_hooks(bundle, outside)


def _of_state(box: Container) -> Facts:
    state = box.state()
    found = {f"state.{key}": state.get(key) for key in ("status", "ociVersion")}
    return found | {"state.annotations": state.get("annotations") or {}}


def _of_cgroups(box: Container) -> Facts:
    found: Facts = {}
    places = box.cgroups()
    for controller, files in CONTROL_FILES.items():
        for file in files:
            path = places.get(controller, Path("/nothing")) / file
            if path.exists():
                found[f"cgroup {file}"] = path.read_text().strip()
    return found


def _of_hooks(bundle: Bundle, outside: Json) -> Facts:
    found: Facts = {}
    for number, note in enumerate(bundle.hooked()):
        name = f"hook {number} {note['word']}"
        state = json.loads(note["stdin"])
        found[f"{name}.status"] = state.get("status")
        found[f"{name}.pid"] = "none" if not state.get("pid") else "a pid"
        found[f"{name}.env"] = sorted(one.partition("=")[0] for one in note["env"])
        for kind in ("mnt", "net", "pid"):
            own = note["namespaces"].get(kind) != outside["namespaces"].get(kind)
            found[f"{name}.namespaces.{kind}"] = "own" if own else "the host's"
    return found


def normalised(facts: Json, outside: Json, others: dict[str, int]) -> Facts:
    """Return the probe's facts by flat names: ``rlimits.RLIMIT_CORE``, ``mount /tmp.options`` ...

    ``outside`` are the probe's facts on the host, ``others`` the inodes of namespaces to join.
    """
    found: Facts = {"fds": sorted(facts["fds"] or [], key=int)}  # none may be opened to look
    for clock in ("monotonic_ns", "boottime_ns"):
        found[f"hours of {clock}"] = round((facts[clock] - outside[clock]) / HOUR)
    found["is its parent's child"] = facts["ppid"] != 0
    names = facts.get("interfaces", {})
    found["interfaces"] = {name: names[name].get("flags") for name in sorted(names)}
    grouped = {"stat", "read", "list", "open", "namespaces", "rlimits", "fds", "interfaces"}
    for key, value in facts.items():
        if key in FLEETING or key in grouped:
            continue
        if key == "capabilities":
            found |= {f"capabilities.{kind}": f"{mask:#x}" for kind, mask in value.items()}
        else:
            found[key] = sorted(value) if key in {"env", "groups"} else value
    found |= {f"rlimits.{name}": pair for name, pair in facts["rlimits"].items()}
    for kind, inode in facts["namespaces"].items():
        host = inode == outside["namespaces"].get(kind)
        own = "the other's" if inode == others.get(kind) else "own"
        found[f"namespaces.{kind}"] = "the host's" if host else own
    for path, stat in facts["stat"].items():
        for key in ("error", "kind", "mode", "uid", "gid", "major", "minor"):
            if key in stat:
                found[f"{path}.{key}"] = oct(stat[key]) if key == "mode" else stat[key]
    for path, names in facts["list"].items():
        found[f"list {path}"] = sorted(names) if isinstance(names, list) else names
    found |= {f"open {word}": answer for word, answer in facts["open"].items()}
    texts = dict(facts["read"])
    table = texts.pop("/proc/self/mountinfo", "")
    found |= {f"read {path}": text for path, text in texts.items()}
    return found | (_mounts(table) if isinstance(table, str) else {})


def _mounts(table: str) -> Facts:
    found: Facts = {}
    for one in mounts.parse(table):
        name = f"mount {one.point}"
        while f"{name}.type" in found:
            name += " above it"
        kinds = {tag.partition(":")[0] for tag in one.tags}
        found[f"{name}.type"] = one.fstype
        found[f"{name}.options"] = " ".join(sorted(one.options))
        found[f"{name}.propagation"] = " ".join(sorted(kinds)) or "private"
        if one.fstype in {"tmpfs", "devpts", "proc"}:
            found[f"{name}.data"] = " ".join(sorted(one.super_options))
    return found
