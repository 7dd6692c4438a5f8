"""Any config.json compiles to a plan or to a one-line error that names the JSON path.

No root, no container: this is ``ociruntime plan`` without a real host; hosts are made up.
``--property-factor N`` searches N times as long, with different configs each time.
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from ociruntime.runtime.cgroups import systemd_group
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout
from ociruntime.runtime.cgroups.systemd_group import SystemdCgroup
from ociruntime.runtime.cgroups.systemd_properties import limits
from ociruntime.runtime.host.seccomp import compile_filter
from ociruntime.runtime.lifecycle.context import ExecOptions
from ociruntime.runtime.lifecycle.exec_process import process_of
from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.exec_plan import compile_exec_plan
from ociruntime.runtime.plan.explain import explain
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.plan import Plan, encode
from ociruntime.runtime.spec.load_config import parse_config
from ociruntime.runtime.spec.validate import validate
from tests.properties.configs import configs, notified, processes, texts, units
from tests.properties.conftest import Searching
from tests.properties.fields import Json
from tests.properties.judging import check_plan, check_refusal

pytestmark = pytest.mark.timeout(0)

V1 = tuple(
    Hierarchy((name,), "", f"/sys/fs/cgroup/{name}", 1)
    for name in ("cpuset", "cpu", "memory", "devices", "pids", "blkio", "net_cls", "hugetlb")
)
V2 = Hierarchy(("cpuset", "cpu", "io", "memory", "hugetlb", "pids"), "", "/sys/fs/cgroup", 2)
LAYOUTS = {
    "v1": Layout("v1", V1),
    "hybrid": Layout("hybrid", (*V1, Hierarchy(("rdma",), "", "/sys/fs/cgroup/unified", 2))),
    "v2": Layout("v2", (V2,)),
}


DRIVERS = ("cgroupfs", "systemd", "systemd of a user")


class MadeUpManager:
    """The parts of systemd that a plan depends on."""

    control_group = ""
    version = 252


def cgroup_of(config: Json, mode: str, driver: str) -> Cgroup:
    """Return the cgroup that runtime/lifecycle/prepare_create.py plans."""
    path = (config.get("linux") or {}).get("cgroupsPath")
    if driver == "cgroupfs":
        return Cgroup.plan(LAYOUTS[mode], path, "c1")
    annotations = config.get("annotations") or {}
    user = driver != "systemd"
    with mock.patch.object(systemd_group, "_connect", return_value=MadeUpManager()):
        planned = SystemdCgroup.plan_unit(LAYOUTS[mode], path, "c1", annotations, user)
    assert 0 < len(planned.unit) <= 255
    assert planned.unit.isascii()
    assert "/" not in planned.unit
    return planned


def tried(config: Json, mode: str, driver: str = "cgroupfs") -> Plan:
    """Return the plan of a document on a made-up host; raises ConfigError."""
    data = json.dumps(config).encode()
    checked = parse_config(data)
    validate(checked)
    linux: Json = checked.get("linux") or {}
    cgroup = cgroup_of(checked, mode, driver)
    settings = cgroup.settings(linux.get("resources"))
    if driver != "cgroupfs":
        check_properties(limits(settings, MadeUpManager.version))
    request = Request(id="c1", bundle="/bundle", rootfs="/bundle/rootfs")
    if linux.get("seccomp"):
        request.seccomp_filter, request.seccomp_flags = compile_filter(linux["seccomp"], print)
    return compile_plan(checked, facts_of(mode, cgroup.hierarchies()), request)


def facts_of(mode: str, hierarchies: tuple[tuple[str, str], ...] = ()) -> HostFacts:
    return HostFacts(
        uid=0,
        last_capability=40,
        bounding=(1 << 41) - 1,
        cgroup_mode=mode,
        hierarchies=hierarchies,
    )


def check_properties(properties: list[tuple[str, str, Json]]) -> None:
    """Check that each is a valid systemd property, set once."""
    names = [name for name, _, _ in properties]
    assert len(names) == len(set(names)), names
    for _, signature, value in properties:
        if signature == "t":
            assert 0 <= value < 1 << 64


def judge(config: Json, mode: str, driver: str) -> None:
    try:
        plan = tried(config, mode, driver)
    except ConfigError as error:
        check_refusal(error, config)
        return
    check_plan(plan, encode(plan))
    assert explain(plan)


def test_a_plan_or_a_place(searching: Searching) -> None:
    @searching(700)
    @given(configs(), st.sampled_from(sorted(LAYOUTS)), st.sampled_from(DRIVERS))
    def holds(config: Json, mode: str, driver: str) -> None:
        judge(config, mode, driver)

    holds()


def test_units(searching: Searching) -> None:
    @searching(300)
    @given(units(), st.sampled_from(sorted(LAYOUTS)), st.sampled_from(DRIVERS))
    def holds(config: Json, mode: str, driver: str) -> None:
        judge(config, mode, driver)

    holds()


def test_listeners(searching: Searching) -> None:
    @searching(100)
    @given(notified())
    def holds(config: Json) -> None:
        judge(config, "v2", "cgroupfs")

    holds()


def test_processes_of_exec(searching: Searching, tmp_path: Path) -> None:
    """`exec --process FILE`: missing members are taken from the container."""
    file = tmp_path / "process.json"
    apart = st.sampled_from((0, CLONE_NEWNS, CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER))

    @searching(500)
    @given(processes(), apart)
    def holds(given: tuple[Json, Json], apart: int) -> None:
        document, config = given
        file.write_text(json.dumps(document))
        try:
            process = process_of(config, ExecOptions("c1", process_file=str(file)), [])
            request = Request(id="c1", bundle="/bundle", rootfs="/bundle/rootfs")
            request.console = bool(process.get("terminal"))
            joined: Json = {**config, "process": process}
            plan = compile_exec_plan(joined, facts_of(""), request, 77, apart)
        except ConfigError as error:
            check_refusal(error, {**config, "process": document})
            return
        check_plan(plan, encode(plan))
        assert explain(plan)

    holds()


def test_spoilt_texts(searching: Searching) -> None:
    @searching(300)
    @given(texts())
    def holds(data: bytes) -> None:
        try:
            config = parse_config(data)
            validate(config)
        except ConfigError as error:
            text = str(error)
            assert text.isprintable(), repr(text)

    holds()
