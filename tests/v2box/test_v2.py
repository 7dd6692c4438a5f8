"""The runtime on cgroup v2, a recent kernel and Python 3.13: integration tests in the box."""

from __future__ import annotations

import pytest

from tests.v2box.machine import REPORTS, SOURCE, Machine
from tests.v2box.results import Publish

# The first test of a session may have to build the box.
pytestmark = [pytest.mark.v2box, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(2400)]

# Left out is what says the same on every machine (errors, logs, lists) or takes its time by
# design (hooks that run out of time).
FILES = [
    "tests/v2box/inside",
    "tests/integration/test_cgroups_v2.py",
    "tests/integration/test_lifecycle.py",
    "tests/integration/test_run.py",
    "tests/integration/test_limits.py",
    "tests/integration/test_memory.py",
    "tests/integration/test_failures.py",
    "tests/integration/test_concurrency.py",
    "tests/integration/test_console.py",
    "tests/integration/test_devices.py",
    "tests/integration/test_empty_environment.py",
    "tests/integration/test_entry.py",
    "tests/integration/test_fds.py",
    "tests/integration/test_mounts.py",
    "tests/integration/test_namespaces.py",
    "tests/integration/test_paths.py",
    "tests/integration/test_process.py",
    "tests/integration/test_seccomp.py",
    # a podman years younger than the oldest supported
    "tests/engines/test_podman.py::test_states",
    "tests/engines/test_podman.py::test_log",
    "tests/engines/test_podman.py::test_kill",
    "tests/engines/test_podman.py::test_limits",
    "tests/engines/test_podman.py::test_out_of_memory",
    "tests/engines/test_podman.py::test_namespaces",
    "tests/engines/test_podman.py::test_user_namespace",
    "tests/engines/test_podman.py::test_terminal",
]
SECONDS = 300  # after which pytest stops in the box; thrice what is needed
REPORT = "integration.xml"


def test_integration(project_in_box: Machine, publish: Publish) -> None:
    """One boot; each inner test becomes a result of its own (``v2box/tests/...``).

    pytest runs elsewhere than in the sources: the installed package is the one to test.
    """
    python = f"{project_in_box.place}/bin/python"
    result = project_in_box.boot(
        *("env", f"OCIRUNTIME_UNDER_TEST={project_in_box.place}/bin/ociruntime"),
        *("PYTHONDONTWRITEBYTECODE=1", python, "-P", "-m", "pytest", "-v", "--tb=short"),
        *("-c", f"{SOURCE}/pyproject.toml", "--rootdir", SOURCE, "-p", "no:cacheprovider"),
        *(f"--session-timeout={SECONDS}", f"--junitxml={REPORTS}/{REPORT}"),
        *(f"{SOURCE}/{name}" for name in FILES),
        seconds=SECONDS + 120,
    )
    path = project_in_box.reports / REPORT
    assert path.exists(), result.out[-4000:] + result.err
    found = publish(path)
    # 1: some have failed, and say so themselves
    assert result.status in (0, 1), result.out[-4000:] + result.err
    assert "session-timeout" not in result.out, result.out[-4000:]
    passed = {report.nodeid for report in found if report.passed}
    for name in FILES:
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
