"""The runs in the test VM: integration tests on cgroup v2, a recent kernel and Python 3.13."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.runtime import Result
from tests.v2box.machine import REPORTS, SOURCE, Machine

# The timeout of pytest in the VM.  Alone on a slow machine it needs a fifth of that, beside
# all other tests more.
SECONDS = 1500


@dataclass(frozen=True)
class Run:
    """One boot: the files or tests to run, and options of the VM."""

    files: tuple[str, ...]
    options: tuple[str, ...] = ()


# Left out are tests that say the same on every machine (errors, logs, lists, terminals, paths,
# comparisons with other runtimes) or that wait on purpose (hooks that time out).  The ordinary run
# has the files that depend on the cgroup version, with one test or two of each product; the long
# run has those that depend on the kernel or on Python's version, too.
INTEGRATION = Run(
    (
        "tests/v2box/inside",
        "tests/runtime/test_cgroups_v2.py",
        "tests/runtime/test_lifecycle.py",
        "tests/runtime/test_limits.py",
        "tests/runtime/test_memory.py",
        "tests/runtime/test_devices.py",
        "tests/runtime/test_fast_path.py",
        "tests/runtime/test_events.py",
        "tests/runtime/test_pause.py",
        "tests/runtime/test_update.py",
        "tests/runtime/test_rootless.py",
        "tests/pods/test_pod_limits.py::test_two_apps_together",
        # a podman years younger than the oldest supported
        "tests/engines/test_podman.py::test_limits",
        "tests/engines/test_podman.py::test_out_of_memory",
        "tests/engines/cri/test_lifecycle.py::test_two_containers",
        "tests/engines/cri/test_lifecycle.py::test_update",
    )
)
LONG_INTEGRATION = Run(
    (
        "tests/runtime/test_run.py",
        "tests/runtime/test_failures.py",
        "tests/runtime/test_concurrency.py",
        "tests/runtime/test_drop_in.py",
        "tests/runtime/test_exec.py",
        "tests/runtime/test_exec_place.py",
        "tests/runtime/test_fds.py",
        "tests/runtime/test_mounts.py",
        "tests/runtime/test_mounts_add_remove.py",
        "tests/runtime/test_namespaces.py",
        "tests/runtime/test_ps.py",
        "tests/runtime/test_process.py",
        "tests/runtime/test_seccomp.py",
        "tests/runtime/test_shared_pids.py",
        "tests/pods/test_runtimes.py",
        "tests/pods/test_monitor.py",
        "tests/engines/test_podman.py::test_states",
        "tests/engines/test_podman.py::test_log",
        "tests/engines/test_podman.py::test_kill",
        "tests/engines/test_podman.py::test_namespaces",
        "tests/engines/test_podman.py::test_user_namespace",
        "tests/engines/test_podman_notify.py",
        "tests/engines/test_podman.py::test_terminal",
        "tests/engines/test_rootless_podman.py",
        "tests/engines/test_setup.py",
        "tests/engines/cri/test_lifecycle.py",
        "tests/engines/cri/test_processes.py",
    )
)
BELOW_SYSTEMD = Run(
    (
        "tests/v2box/systemd",
        "tests/engines/test_podman_systemd.py",
        "tests/engines/cri/test_systemd.py",
    ),
    ("--systemd",),
)
RUNS = {
    "integration": INTEGRATION,
    "systemd": BELOW_SYSTEMD,
    "long-integration": LONG_INTEGRATION,
}
LONG = {"long-integration"}  # runs of the long tests


def boot(machine: Machine, name: str) -> Result:
    """Boot for the run of that name, whose JUnit report is then ``reports / NAME.xml``.

    The working directory is not that of the sources: the installed package is tested.
    """
    run = RUNS[name]
    return machine.boot(
        *("env", f"OCIRUNTIME_UNDER_TEST={machine.place}/bin/ociruntime"),
        *("PYTHONDONTWRITEBYTECODE=1", f"{machine.place}/bin/python", "-P", "-m", "pytest"),
        *("-v", "--tb=short", "-c", f"{SOURCE}/pyproject.toml", "--rootdir", SOURCE),
        *("-p", "no:cacheprovider", f"--session-timeout={SECONDS}"),
        f"--junitxml={REPORTS}/{name}.xml",
        *(f"{SOURCE}/{file}" for file in run.files),
        seconds=SECONDS + 120,
        options=run.options,
    )
