"""What a container of a runtime is like, as flat facts that do not depend on the run."""

from __future__ import annotations

import json
from typing import Any

from conformance import mounts
from conformance.bundle import Json
from conformance.case import Failed, Skipped
from conformance.context import Context
from conformance.difference.configs import CALLS, Edits
from conformance.template import PROBE

Facts = dict[str, Any]
# Another value at each run, or the kit's own doing.
FLEETING = frozenset(
    "fds pid pgid sid keyring monotonic_ns boottime_ns realtime_ns argv root interfaces".split()
)
STATS = (
    *("/dev/null", "/dev/one", "/dev/sub/two", "/out/three", "/dev/ptmx", "/dev/console"),
    *("/tmp", "/run", "/var", "/var/deep", "/mnt", "/mnt/dir", "/mnt/file", "/usr", "/made"),
)
READS = (
    *("/proc/self/oom_score_adj", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/msgmax"),
    *("/proc/sys/fs/mqueue/msg_max", "/etc/passwd"),
)
LISTS = ("/dev", "/", "/sys")
OPENS = ("w:/etc/passwd", "w:/proc/sys/kernel/msgmax", "w:/dev/null", "r:/proc/kcore")
ASKS = (
    *(f"stat={path}" for path in STATS),
    *(f"read={path}" for path in (*READS, "/proc/self/mountinfo")),
    *(f"list={path}" for path in LISTS),
    *(f"open={word}" for word in OPENS),
)
# Calls that do nothing by these arguments but tell whether a filter is in the way.
TRIED = [f"syscall {name} 0 0 0 0 0" for name in CALLS if name != "personality"]


def observe(c: Context, version: str, edits: Edits) -> None:
    """The function of a case: facts come back as the reason of its being skipped."""
    bundle = c.bundle().change(ociVersion=version)
    for edit in edits:
        edit.apply(bundle.config)
    words = [*ASKS]
    for action in TRIED:
        words += ["--", *action.split()]
    bundle.args(PROBE, "facts", *words)
    raise Skipped(json.dumps(_facts(c, bundle)))


def _facts(c: Context, bundle: Any) -> Facts:
    outside = c.probe_on_host().json()["namespaces"]
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return {"result": "create fails", "message": result.complaint}
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
    found: Facts = {"result": "runs"}
    for report in reports[1:]:
        found[f"call {report.get('call')}"] = report.get("error")
    return found | normalised(reports[0], outside)


def normalised(facts: Json, outside: Json) -> Facts:
    """One member for each fact: ``rlimits.RLIMIT_CORE``, ``mount /tmp.options``..."""
    found: Facts = {}
    for key, value in facts.items():
        if key in FLEETING or key in {"stat", "read", "list", "open", "namespaces", "rlimits"}:
            continue
        if key == "capabilities":
            found |= {f"capabilities.{kind}": f"{mask:#x}" for kind, mask in value.items()}
        else:
            found[key] = sorted(value) if key in {"env", "groups"} else value
    found |= {f"rlimits.{name}": pair for name, pair in facts["rlimits"].items()}
    for kind, inode in facts["namespaces"].items():
        found[f"namespaces.{kind}"] = "the host's" if inode == outside.get(kind) else "own"
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
