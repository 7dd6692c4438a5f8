"""Run the conformance kit on ociruntime, runc and crun, and write the pages in docs/.

    tools/compare_runtimes.py [OPTION...]

Options go to the kit.  On cgroup v1 beside a v2 hierarchy crun refuses to work until hugetlb
is mounted as v1; that is done in a mount namespace of this program's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "build" / "conformance.json"
HTML = ROOT / "docs" / "conformance.html"
INSIDE = "OCIRUNTIME_CONFORMANCE_INSIDE"
HUGETLB = Path("/sys/fs/cgroup/hugetlb")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def enter_mount_namespace() -> None:
    """Start again in an own mount namespace, where nothing has to be undone on the host."""
    if os.geteuid() == 0 and not os.environ.get(INSIDE):
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def hugetlb_as_v1() -> bool:
    """Mount it if this host is the kind on which crun needs it; says whether it was."""
    if os.geteuid() or os.path.ismount(HUGETLB) or not os.path.ismount("/sys/fs/cgroup/unified"):
        return False
    HUGETLB.mkdir(exist_ok=True)
    command = ["mount", "-t", "cgroup", "-o", "hugetlb", "cgroup", str(HUGETLB)]
    return subprocess.run(command, check=False).returncode == 0


def runtimes() -> list[str]:
    """Ours of the build environment or of the PATH first, then the peers that are installed."""
    own = ROOT / ".venv" / "bin" / "ociruntime"
    search = f"{PATH}:{os.environ.get('PATH', '')}"
    found = [shutil.which(name, path=search) for name in (str(own), "runc", "crun")]
    return [path for path in found if path]


def main() -> int:
    enter_mount_namespace()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.unlink(missing_ok=True)
    mounted = hugetlb_as_v1()
    command = [sys.executable, "-m", "conformance", *sys.argv[1:]]
    for path in runtimes():
        command += ["--runtime", path]
    command += ["--report", f"html={HTML}", "--report", f"json={RESULT}"]
    try:
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if RESULT.exists():
            script = ROOT / "tools" / "spec_coverage.py"
            subprocess.run([sys.executable, script, RESULT], check=True)
            print("written: docs/conformance.html docs/spec-coverage.md", file=sys.stderr)
    finally:
        if mounted:
            subprocess.run(["umount", str(HUGETLB)], check=True)
            if not any(HUGETLB.iterdir()):
                HUGETLB.rmdir()
    return status


if __name__ == "__main__":
    sys.exit(main())
