"""Run the conformance kit on every available host, and write the pages in docs/.

    tools/run_conformance.py [OPTION...]
    tools/run_conformance.py diff [OPTION...]

The hosts are this machine, where ociruntime is compared with runc and crun, and the test VM,
without and with systemd, for cases that this machine skips. Options are passed to the kit. Reports
are written to build/conformance. ``diff`` searches on this machine for configs that the three
runtimes interpret differently.

On cgroup v1, missing controllers are mounted in a private mount namespace (added_controllers.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from tests.v2box import machine  # noqa: E402
from tools.added_controllers import added  # noqa: E402

REPORTS = ROOT / "build" / "conformance"
HTML = ROOT / "docs" / "conformance.html"
COVERAGE = ROOT / "docs" / "spec-coverage.md"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Cases that differ on cgroup v2, whether or not this machine can run them.
ON_V2 = ("linux_cgroups_path::", "linux_resources_", "runtime_operations::")
# The test VM has one processor and slow system calls.
TIMEOUT = ("--timeout", "150", "--command-timeout", "60", "--jobs", "2")
SECONDS = 1500  # timeout of the kit in the test VM
ALONE = "OCIRUNTIME_CONFORMANCE_ALONE"


def runtimes() -> list[str]:
    """Return the paths of the ociruntime in .venv, and of runc and crun if installed."""
    own = ROOT / ".venv" / "bin" / "ociruntime"
    search = f"{PATH}:{os.environ.get('PATH', '')}"
    paths = [shutil.which(name, path=search) for name in (str(own), "runc", "crun")]
    return [path for path in paths if path]


def on_this_machine(report: Path, options: list[str]) -> int:
    """Run the kit on all runtimes in a new mount namespace; return its exit status."""
    command = ["unshare", "--mount"] if os.geteuid() == 0 else []
    command += [sys.executable, __file__, "--on-this-machine", "--report", f"json={report}"]
    command += ["--report", f"html={HTML}", *options]
    return subprocess.run(command, check=False).returncode


def differences(options: list[str]) -> int:
    """Run the kit's ``diff`` in a new mount namespace; return its exit status."""
    if os.geteuid() == 0 and not os.environ.get(ALONE):
        command = ["unshare", "--mount", sys.executable, __file__, "diff", *options]
        return subprocess.run(command, env={**os.environ, ALONE: "1"}, check=False).returncode
    command = [sys.executable, "-m", "conformance", "diff", "--runtimes", ",".join(runtimes())]
    with added():
        return subprocess.run([*command, *options], cwd=ROOT, check=False).returncode


def in_box(box: machine.Machine, report: str, systemd: bool, options: list[str]) -> int:
    """Run the kit in the test VM, for cases that v1.json skipped; return its exit status."""
    kit = [f"{box.place}/bin/python", "-m", "conformance", *TIMEOUT]
    kit += ["--runtime", f"{box.place}/bin/ociruntime"]
    kit += ["--skipped-in", f"{machine.REPORTS}/v1.json"]
    kit += [word for name in ON_V2 for word in ("--filter", name)]
    kit += ["--report", f"json={machine.REPORTS}/{report}"]
    if systemd:
        kit.append("--option=--systemd-cgroup")
    settings = ("env", "-C", machine.SOURCE, "PYTHONDONTWRITEBYTECODE=1", "HOME=/root")
    boot = ("--systemd",) if systemd else ()
    done = box.boot(*settings, *kit, *options, seconds=SECONDS, options=boot)
    sys.stdout.write(done.out)
    sys.stderr.write(done.err)
    return done.status


def boxes(options: list[str]) -> int:
    """Run the kit in the test VM without and with systemd; return the highest exit status."""
    try:
        machine.built()
    except machine.NoBox as reason:
        say(f"skipping cgroup v2: no test VM: {reason}")
        return 0
    worst = 0
    with tempfile.TemporaryDirectory(prefix="conformance-box-") as directory:
        box = machine.installed(Path(directory))
        shutil.copy(REPORTS / "v1.json", box.reports)
        # Compile the probe on this machine, which is faster than the VM.
        code = "from conformance.program import probe_path; probe_path()"
        box.chroot("env", "-C", machine.SOURCE, "HOME=/root", "python3", "-Bc", code).ok()
        for report, systemd in (("v2.json", False), ("systemd.json", True)):
            say(f"in the test VM: {report.partition('.')[0]}")
            worst = max(worst, in_box(box, report, systemd, options))
            if (box.reports / report).exists():
                shutil.copy(box.reports / report, REPORTS)
    return worst


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(options: list[str]) -> int:
    if options[:1] == ["diff"]:
        return differences(options[1:])
    if options[:1] == ["--on-this-machine"]:
        words = [word for path in runtimes() for word in ("--runtime", path)]
        command = [sys.executable, "-m", "conformance", *words, *options[1:]]
        with added():
            return subprocess.run(command, cwd=ROOT, check=False).returncode
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    status = on_this_machine(REPORTS / "v1.json", options)
    if not (REPORTS / "v1.json").exists():
        return status
    status = max(status, boxes(options))
    script = [sys.executable, str(ROOT / "tools" / "spec_coverage.py"), str(COVERAGE)]
    subprocess.run([*script, *map(str, sorted(REPORTS.glob("*.json")))], check=True)
    say("written: docs/conformance.html docs/spec-coverage.md")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
