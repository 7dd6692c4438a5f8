"""Garbage collection of images and trees while pods are created from them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import images
from tests.support.ocipod import Ocipod


@pytest.fixture
def image(work: Path) -> str:
    images.make_layout(work / "box")
    return f"oci:{work}/box"


def trees(ocipod: Ocipod) -> list[str]:
    """Return the complete trees."""
    place = ocipod.directory / "cas/tree"
    return [tree.name for tree in place.iterdir() if (tree / "rendered").exists()]


def test_the_tree_of_a_pod_that_is_prepared_stays(ocipod: Ocipod, image: str) -> None:
    """From its creation to the pod's reference to it, and as long as the pod exists."""
    prepare = ocipod.popen(
        "prepare", image, "--exec=/bin/true", fault="prepare.after-render:stop",
        stdout=subprocess.PIPE,
    )  # fmt: skip
    os.waitid(os.P_PID, prepare.pid, os.WSTOPPED | os.WNOWAIT)
    (tree,) = trees(ocipod)
    collect = ocipod.popen("image", "gc", "--grace-period=0s")
    time.sleep(0.5)
    assert collect.poll() is None, "it waits"
    assert trees(ocipod) == [tree]
    prepare.send_signal(signal.SIGCONT)
    assert prepare.wait(30) == 0
    assert collect.wait(30) == 0
    assert trees(ocipod) == [tree]
    assert ocipod("image", "rm", image).status == 254
    (uuid,) = ocipod.pods("prepared")
    ocipod("run-prepared", uuid).ok()
    ocipod("image", "gc", "--grace-period=0s").ok()
    assert trees(ocipod) == [tree]
    ocipod("rm", uuid).ok()
    ocipod("image", "gc", "--grace-period=0s").ok()
    assert trees(ocipod) == []
    assert ocipod("image", "list", "--no-legend").ok().out == ""


def test_a_tree_that_was_not_finished_is_made_again(ocipod: Ocipod, image: str) -> None:
    fault = "treestore.before-rendered-flag:kill"
    killed = ocipod("run", "--net=none", image, "--exec=/bin/true", fault=fault)
    assert killed.status == -signal.SIGKILL
    assert trees(ocipod) == []
    ocipod("run", "--net=none", image, "--exec=/bin/sh", "--", "-c", "test -x /bin/sh").ok()
    assert len(trees(ocipod)) == 1


def test_pods_prepared_at_once_share_a_tree(ocipod: Ocipod, image: str) -> None:
    results = ocipod.together(*[["prepare", image, "--exec=/bin/true"]] * 4)
    assert [result.status for result in results] == [0] * 4, results
    assert len(trees(ocipod)) == 1
    ocipod("image", "verify", image).ok()
