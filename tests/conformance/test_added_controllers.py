"""Controllers mounted for crun: visible to one program, and the host is unchanged afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import project
from tools import added_controllers

TABLE = """\
#subsys_name hierarchy num_cgroups enabled
memory 4 89 1
hugetlb 0 1 0
net_cls 0 1 1
"""


def test_controllers_of_the_kernel() -> None:
    assert added_controllers.enabled(TABLE) == {"memory", "net_cls"}


class Control:
    """A fake cgroup.subtree_control; ``busy`` is how often a write fails with EBUSY first."""

    def __init__(self, words: str, busy: int = 0) -> None:
        self.words = words.split()
        self.busy = busy

    def exists(self) -> bool:
        return True

    def read_text(self) -> str:
        return " ".join(self.words) + "\n"

    def write_text(self, word: str) -> None:
        if word[0] == "-":
            self.words.remove(word[1:])
            return
        self.busy -= 1
        if self.busy >= 0:
            raise FileNotFoundError(word)
        self.words.append(word[1:])


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_controllers, "PAUSE", 0)


def kept(control: Control) -> set[str]:
    with added_controllers.unified_as_before(control):  # type: ignore[arg-type]
        control.write_text("-hugetlb")
    return set(control.words)


def test_what_was_enabled_is_enabled_again() -> None:
    assert kept(Control("hugetlb rdma")) == {"hugetlb", "rdma"}
    assert kept(Control("hugetlb rdma", busy=3)) == {"hugetlb", "rdma"}


def test_what_does_not_come_back_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert kept(Control("hugetlb rdma", busy=1000)) == {"rdma"}
    assert "hugetlb" in capsys.readouterr().err


def test_no_unified_hierarchy(tmp_path: Path) -> None:
    with added_controllers.unified_as_before(tmp_path / "nothing"):
        pass
    assert not list(tmp_path.iterdir())


PROGRAM = """
import json, os
from pathlib import Path
from tools.added_controllers import CGROUPS, added
before = {one.name for one in CGROUPS.iterdir() if os.path.ismount(one)}
with added() as names:
    inside = {one.name for one in CGROUPS.iterdir() if not one.is_symlink()}
    real = [name for name in names if (CGROUPS / name / "cgroup.procs").exists()]
    kept = [name for name in before if os.path.ismount(CGROUPS / name)]
    links = [str(one) for one in CGROUPS.iterdir() if one.is_symlink() and not one.exists()]
after = {one.name for one in CGROUPS.iterdir() if os.path.ismount(one)}
print(json.dumps([sorted(x) for x in (before, names, inside, real, kept, after)] + [links]))
"""


@pytest.mark.root
def test_for_one_program_alone() -> None:
    if os.geteuid() != 0 or not os.path.ismount(added_controllers.CGROUPS / "memory"):
        pytest.skip("needs root, and cgroup v1")
    before = set(added_controllers.CGROUPS.iterdir())
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", PROGRAM],
        cwd=project.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    mounted, names, inside, real, kept, after, dangling = json.loads(done.stdout)
    # A plain directory for one that cannot be had would be filled by crun.
    assert inside == sorted({*mounted, *names})
    assert real == names
    assert kept == mounted == after
    assert not dangling
    assert set(added_controllers.CGROUPS.iterdir()) == before
