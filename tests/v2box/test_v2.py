"""The runtime on cgroup v2, a recent kernel and Python 3.13: integration tests in the box."""

from __future__ import annotations

import pytest

from tests.v2box.machine import REPORTS, SOURCE, Machine
from tests.v2box.results import Publish

# The first test of a session may have to build the box.
pytestmark = [pytest.mark.v2box, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(2400)]

# Left out is what says the same on every machine (errors, logs, lists, terminals, paths, words
# beside those of other runtimes) or takes its time by design (hooks that run out of time).
FILES = [
    "tests/v2box/inside",
    "tests/integration/test_cgroups_v2.py",
    "tests/integration/test_lifecycle.py",
    "tests/integration/test_run.py",
    "tests/integration/test_limits.py",
    "tests/integration/test_memory.py",
    "tests/integration/test_failures.py",
    "tests/integration/test_concurrency.py",
    "tests/integration/test_devices.py",
    "tests/integration/test_drop_in.py",
    "tests/integration/test_entry.py",
    "tests/integration/test_exec.py",
    "tests/integration/test_exec_place.py",
    "tests/integration/test_events.py",
    "tests/integration/test_fds.py",
    "tests/integration/test_mounts.py",
    "tests/integration/test_further_mounts.py",
    "tests/integration/test_namespaces.py",
    "tests/integration/test_pause.py",
    "tests/integration/test_ps.py",
    "tests/integration/test_update.py",
    "tests/integration/test_process.py",
    "tests/integration/test_rootless.py",
    "tests/integration/test_seccomp.py",
    "tests/integration/test_shared_pids.py",
    "tests/pods/test_supervision.py",
    # a podman years younger than the oldest supported
    "tests/engines/test_podman.py::test_states",
    "tests/engines/test_podman.py::test_log",
    "tests/engines/test_podman.py::test_kill",
    "tests/engines/test_podman.py::test_limits",
    "tests/engines/test_podman.py::test_out_of_memory",
    "tests/engines/test_podman.py::test_namespaces",
    "tests/engines/test_podman.py::test_user_namespace",
    "tests/engines/test_podman_notify.py",
    "tests/engines/test_podman.py::test_terminal",
    "tests/engines/test_rootless_podman.py",
]
BELOW_SYSTEMD = ["tests/v2box/systemd", "tests/engines/test_podman_systemd.py"]
SECONDS = 900  # after which pytest stops in the box; a slow machine needs a third of that


def test_integration(project_in_box: Machine, publish: Publish) -> None:
    """One boot; each inner test becomes a result of its own (``v2box/tests/...``)."""
    run_inside(project_in_box, publish, FILES, "integration.xml")


def test_below_systemd(project_in_box: Machine, publish: Publish) -> None:
    """The same with systemd as the first process."""
    run_inside(project_in_box, publish, BELOW_SYSTEMD, "systemd.xml", "--systemd")


def run_inside(
    project_in_box: Machine, publish: Publish, files: list[str], report: str, *options: str
) -> None:
    """Not in the directory of the sources: the installed package is the one to test."""
    python = f"{project_in_box.place}/bin/python"
    result = project_in_box.boot(
        *("env", f"OCIRUNTIME_UNDER_TEST={project_in_box.place}/bin/ociruntime"),
        *("PYTHONDONTWRITEBYTECODE=1", python, "-P", "-m", "pytest", "-v", "--tb=short"),
        *("-c", f"{SOURCE}/pyproject.toml", "--rootdir", SOURCE, "-p", "no:cacheprovider"),
        *(f"--session-timeout={SECONDS}", f"--junitxml={REPORTS}/{report}"),
        *(f"{SOURCE}/{name}" for name in files),
        seconds=SECONDS + 120,
        options=options,
    )
    path = project_in_box.reports / report
    assert path.exists(), result.out[-4000:] + result.err
    found = publish(path)
    # 1: some have failed, and say so themselves
    assert result.status in (0, 1), result.out[-4000:] + result.err
    assert "session-timeout" not in result.out, result.out[-4000:]
    passed = {one.nodeid for one in found if one.passed}
    for name in files:
        assert any(node.startswith(f"v2box/{name}") for node in passed), f"none passed: {name}"


def test_systemd_is_the_first_process(tree: None, project_in_box: Machine) -> None:
    """For what needs its D-Bus interface."""
    script = "cat /proc/1/comm && busctl get-property org.freedesktop.systemd1 \
        /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager ControlGroup && \
        cat /sys/fs/cgroup/cgroup.subtree_control"
    result = project_in_box.boot("sh", "-c", script, seconds=120, options=("--systemd",)).ok()
    comm, group, controllers = result.out.splitlines()
    assert (comm, group) == ("systemd", 's ""')
    assert {"memory", "pids"} <= set(controllers.split())
