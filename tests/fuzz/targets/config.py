"""config.json: read, checked, corrected, compiled, encoded, and its cgroup and seccomp settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ociruntime.base.errors import ConfigError
from ociruntime.base.json_text import dump, parse
from ociruntime.runtime.cgroups import settings_v1, settings_v2  # noqa: F401 - imported at first use
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.device_policy import lines_v1, policy
from ociruntime.runtime.cgroups.device_program import assemble
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout
from ociruntime.runtime.cgroups.resources import settings
from ociruntime.runtime.cgroups.systemd_properties import device_properties, limits
from ociruntime.runtime.check.check_bundle import check_config
from ociruntime.runtime.host.namespaces import check_settings
from ociruntime.runtime.host.seccomp import compile_filter
from ociruntime.runtime.host.seccomp_verdicts import CALLS, allowed_calls
from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.explain import explain
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.plan import encode
from ociruntime.runtime.spec import schema
from ociruntime.runtime.spec.annotations import hook_outputs
from ociruntime.runtime.spec.check_schema import check_schema
from ociruntime.runtime.spec.tolerated_settings import tolerate
from ociruntime.runtime.spec.validate import validate
from tests.fuzz.mutation import json_mutator
from tests.fuzz.target import Target, refusals

GOLDEN = Path(__file__).resolve().parent.parent.parent / "golden"
V1 = tuple(
    Hierarchy((name,), "", f"/sys/fs/cgroup/{name}", 1)
    for name in ("cpuset", "cpu", "memory", "devices", "pids", "blkio", "net_cls", "hugetlb")
)
V2 = Hierarchy(("cpuset", "cpu", "io", "memory", "hugetlb", "pids"), "", "/sys/fs/cgroup", 2)
LAYOUTS = (
    Layout("v1", V1),
    Layout("hybrid", (*V1, Hierarchy(("rdma",), "", "/sys/fs/cgroup/unified", 2))),
    Layout("v2", (V2,)),
)
_GROUPS = "Character devices:\n  1 mem\n136 pts\n\nBlock devices:\n  8 sd\n"


def checked(data: bytes) -> dict[str, Any]:
    """Return a config as `create` would take it.  Raises ConfigError."""
    document: Any = parse(data, "config.json")
    try:
        check_schema(document)
        validate(document)
    except ConfigError:
        if not tolerate(document):
            raise
        check_schema(document)
        validate(document)
    again = parse(dump(document).encode("utf-8", "surrogatepass"), "config.json")
    assert again == document, "the stored config differs"
    return document  # type: ignore[no-any-return]


def _facts(layout: Layout, uid: int) -> HostFacts:
    hierarchies = tuple((each.option, f"{each.mountpoint}/c1") for each in layout.hierarchies)
    return HostFacts(
        uid=uid,
        gid=uid,
        last_capability=40,
        bounding=(1 << 41) - 1,
        cgroup_mode=layout.mode,
        hierarchies=hierarchies,
        apparmor="/proc/self/attr/apparmor/exec" if uid == 0 else "",
        selinux=uid != 0,
        user_namespace=uid != 0,
    )


def _filter(config: dict[str, Any]) -> tuple[bytes, int, frozenset[str]]:
    profile = (config.get("linux") or {}).get("seccomp")
    if not profile:
        return b"", 0, frozenset(CALLS)
    program, flags = compile_filter(profile)
    return program, flags, allowed_calls(program)


def _cgroup(config: dict[str, Any], layout: Layout) -> None:
    linux = config.get("linux") or {}
    cgroup = Cgroup.plan(layout, linux.get("cgroupsPath"), "c1")
    assert not any(".." in path.split("/") for path in cgroup.paths.values())
    resources = linux.get("resources") or {}
    versions = {name: each.version for each in layout.hierarchies for name in each.controllers}
    if layout.mode != "v1":
        versions[""] = 2
    made = settings(resources, versions)
    for version in (230, 252):
        limits(made, version)
    for setting in made:
        for file, _ in setting.files:
            assert "/" not in file, "a control file elsewhere"
    devices = policy(resources.get("devices") or [], "linux.resources.devices")
    device_properties(devices, _GROUPS)
    assemble(devices)
    lines_v1(devices)


def run(data: bytes) -> None:
    try:
        config = checked(data)
    except ConfigError:
        with refusals():
            document = parse(data, "config.json")
            check_config(document)
        return
    for layout, uid in zip(LAYOUTS, (0, 1000, 0), strict=True):
        with refusals():
            _cgroup(config, layout)
        with refusals():
            check_settings(config)  # type: ignore[arg-type]
            hook_outputs(config.get("annotations") or {})
            program, flags, calls = _filter(config)
            process = config.get("process") or {}
            request = Request(
                id="c1",
                bundle="/bundle",
                rootfs="/bundle/rootfs",
                console=bool(process.get("terminal")),
                no_pivot=uid != 0,
                seccomp_filter=program,
                seccomp_flags=flags,
                seccomp_calls=calls,
            )
            plan = compile_plan(config, _facts(layout, uid), request)  # type: ignore[arg-type]
            assert len(encode(plan)) % 4 == 0
            assert explain(plan)


def seeds() -> Iterator[bytes]:
    for path in sorted(GOLDEN.glob("*/config.json")):
        # Without blanks, so that there is room for more within libFuzzer's limit.
        yield json.dumps(json.loads(path.read_bytes())).encode()


def _names() -> tuple[str, ...]:
    """Return the names of all members that config.json may have."""
    found: set[str] = set()
    waiting: list[object] = [schema.CONFIG]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            found |= {key for key in value if isinstance(key, str)}
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return tuple(sorted(found))


TARGET = Target(
    run,
    (
        "base/json_text.py",
        "runtime/spec/",
        "runtime/plan/",
        "runtime/host/seccomp.py",
        "runtime/cgroups/resources.py",
        "runtime/cgroups/setting*.py",
        "runtime/cgroups/device_policy.py",
        "runtime/cgroups/device_program.py",
    ),
    seeds,
    json_mutator(_names()),
)
