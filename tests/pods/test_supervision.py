"""What becomes of a pod's apps: their ends, their order, what is left of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.hand_made_pod import HandMadePod, app
from tests.support.ocipod import Ocipod, PodResult

Make = Callable[..., HandMadePod]


@pytest.fixture
def make(ocipod: Ocipod) -> Iterator[Make]:
    """Makes pods, and removes them in the end."""
    made: list[HandMadePod] = []

    def one(*apps: dict[str, Any], **config: object) -> HandMadePod:
        made.append(HandMadePod(ocipod.directory, ocipod.runtime, *apps, **config))
        return made[-1]

    yield one
    for pod in made:
        shutil.rmtree(pod.path)


def supervise(ocipod: Ocipod, pod: HandMadePod) -> PodResult:
    """The monitor in the foreground, to its end."""
    words = ("monitor", pod.uuid, "--lock-fd", str(pod.lock))
    try:
        return ocipod(*words, pass_fds=[pod.lock])
    finally:
        pod.release()


def test_an_app_runs_and_its_code_is_that_of_the_pod(ocipod: Ocipod, make: Make) -> None:
    pod = make(app("one", "echo hello; exit 3"))
    done = supervise(ocipod, pod)
    assert done.status == 3, done
    assert done.out.endswith("]: hello\n"), done
    assert pod.state("one")["exit_code"] == 3
    assert (pod.path / "apps" / "one" / "status").read_text() == "3\n"
    assert pod.read("exit") == {"code": 3, "reason": "app one ended with 3"}


def test_the_first_failure_halts_the_others(ocipod: Ocipod, make: Make) -> None:
    pod = make(
        app("a", "sleep 0.3; exit 5"),
        app("b", "trap 'exit 0' TERM; sleep 60 & wait"),
        app("c", "sleep 60"),
    )
    assert supervise(ocipod, pod).status == 5
    assert [pod.state(name)["exit_code"] for name in "abc"] == [5, 0, 143]
    assert [pod.state(name)["stopped_by"] for name in "abc"] == [None, "halt", "halt"]
