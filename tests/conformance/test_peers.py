"""ociruntime, runc and crun run the same configs and create the same containers.

``./dev conformance diff --seed N --count 300`` searches further.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.support import project

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COUNT = 40


@pytest.mark.long
def test_no_unexplained_difference() -> None:
    """All differences are in conformance/expected/differences.toml."""
    peers = [name for name in ("runc", "crun") if shutil.which(name, path=PATH)]
    if os.geteuid() != 0 or not peers:
        pytest.skip("needs root, and runc or crun")
    script = project.ROOT / "tools" / "run_conformance.py"
    done = subprocess.run(
        [sys.executable, script, "diff", "--seed", "1", "--count", str(COUNT), "--jobs", "2"],
        env={"PATH": PATH, "HOME": "/root"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} configs of version" in done.stderr
