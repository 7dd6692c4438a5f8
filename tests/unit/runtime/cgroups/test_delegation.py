"""The cgroups of an unprivileged user, on fake hierarchies and permissions."""

from __future__ import annotations

import posix
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.delegation import keep_within_reach
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout

Allow = Callable[..., None]


@pytest.fixture
def unified(tmp_path: Path) -> Layout:
    """One v2 hierarchy in which a user's session is ``/user/session``."""
    (tmp_path / "user" / "session").mkdir(parents=True)
    (tmp_path / "user" / "taken").mkdir()
    return Layout("v2", (Hierarchy(("memory", "pids"), "", str(tmp_path), 2),))


@pytest.fixture
def allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Allow:
    """Say which cgroups belong to the user: what is in them he may write to, nothing else."""
    owned: list[str] = []

    def access(path: str, mode: int, *, effective_ids: bool = False) -> bool:
        assert mode & posix.W_OK
        directory = path.removesuffix("/cgroup.procs")
        return effective_ids and directory in owned

    monkeypatch.setattr(posix, "access", access)

    def of(*names: str) -> None:
        owned.extend(str(tmp_path / name) if name else str(tmp_path) for name in names)

    return of


def reach(
    layout: Layout,
    chosen: str = "",
    **resources: Any,  # noqa: ANN401
) -> tuple[Cgroup, tuple[tuple[str, str], ...]]:
    cgroup = Cgroup.plan(layout, chosen, "c1")
    keep_within_reach(cgroup, layout, bool(chosen), resources, "0::/user/session\n")
    return cgroup, cgroup.visible()


def test_nothing_delegated(unified: Layout, tmp_path: Path, allow: Allow) -> None:
    """Without a cgroup of its own the container is where its creator is."""
    cgroup, places = reach(unified)
    assert cgroup.paths == {}
    assert places == (("", str(tmp_path / "user/session")),)


def test_beside_the_caller(unified: Layout, tmp_path: Path, allow: Allow) -> None:
    allow("user", "user/session")
    cgroup, places = reach(unified, memory={"limit": 5})
    assert (cgroup.path, places) == ("/user/c1", (("", str(tmp_path / "user/c1")),))
    assert list(cgroup.paths.values()) == [str(tmp_path / "user/c1")]


def test_below_the_caller(unified: Layout, allow: Allow) -> None:
    """What is delegated may begin at the very cgroup that the caller is in."""
    allow("user/session")
    assert reach(unified)[0].path == "/user/session/c1"


def test_root_of_what_is_mounted(unified: Layout, tmp_path: Path, allow: Allow) -> None:
    """In a cgroup namespace of its own."""
    allow("")
    cgroup = Cgroup.plan(unified, None, "c1")
    keep_within_reach(cgroup, unified, False, {}, "0::/\n")
    assert cgroup.path == "/c1"


def test_outside_of_what_is_mounted(unified: Layout, tmp_path: Path, allow: Allow) -> None:
    cgroup = Cgroup.plan(unified, None, "c1")
    keep_within_reach(cgroup, unified, False, {}, "0::/../../elsewhere\n")
    assert cgroup.visible() == (("", str(tmp_path)),)


def test_named_path_is_kept(unified: Layout, allow: Allow) -> None:
    allow("user", "user/session")
    assert reach(unified, "/user/there")[0].path == "/user/there"
    assert reach(unified, "/elsewhere")[0].paths == {}


def test_existing_one_needs_only_its_members(unified: Layout, allow: Allow) -> None:
    allow("user/taken", "user")
    assert reach(unified, "/user/taken")[0].path == "/user/taken"


def test_common_ancestor_counts(unified: Layout, allow: Allow) -> None:
    """The directory is the user's, but he may not take processes there."""
    allow("user/taken")
    assert reach(unified, "/user/taken/c1")[0].paths == {}


def test_limit_out_of_reach(unified: Layout, allow: Allow) -> None:
    with pytest.raises(ConfigError, match=r'limit: the cgroup controller "memory" .*Delegate=yes'):
        reach(unified, memory={"limit": 5})


def test_v1_hierarchies_one_by_one(tmp_path: Path, allow: Allow) -> None:
    hierarchies = []
    for name in ("memory", "pids"):
        (tmp_path / name).mkdir()
        hierarchies.append(Hierarchy((name,), "", str(tmp_path / name), 1))
    layout = Layout("v1", tuple(hierarchies))
    allow("memory")
    cgroup = Cgroup.plan(layout, None, "c1")
    membership = "2:pids:/\n1:memory:/\n"
    keep_within_reach(cgroup, layout, False, {"memory": {"limit": 5}}, membership)
    memory, pids = tmp_path / "memory/c1", tmp_path / "pids"
    assert cgroup.visible() == (("memory", str(memory)), ("pids", str(pids)))
    assert [option for option, _ in cgroup.hierarchies()] == ["memory"]
    other = Cgroup.plan(layout, None, "c2")
    with pytest.raises(ConfigError, match=r'pids\.limit: the cgroup controller "pids".*v1'):
        keep_within_reach(other, layout, False, {"pids": {"limit": 5}}, membership)


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ({"allow": False, "access": "rwm"}, False),
        ({"allow": False, "type": "a"}, False),
        ({"allow": True, "type": "c", "major": 1, "minor": 3}, False),
        ({"allow": False, "type": "c"}, True),
        ({"allow": False, "type": "c", "major": 1, "minor": 3}, True),
        ({"allow": False, "major": 1}, True),
    ],
)
def test_device_rules(
    unified: Layout,
    allow: Allow,
    monkeypatch: pytest.MonkeyPatch,
    rule: dict[str, Any],
    refused: bool,
) -> None:
    """The host's root is not meant: he has them carried out."""
    monkeypatch.setattr(control_files, "may_set_device_rules", lambda: True)
    reach(unified, devices=[rule])
    monkeypatch.setattr(control_files, "may_set_device_rules", lambda: False)
    if not refused:
        reach(unified, devices=[rule])
        return
    with pytest.raises(ConfigError, match=r"linux\.resources\.devices\[0\]: "):
        reach(unified, devices=[rule])


def test_the_words(unified: Layout, tmp_path: Path, allow: Allow) -> None:
    with pytest.raises(ConfigError) as caught:
        reach(unified, pids={"limit": 5})
    assert f'write to "{tmp_path}"' in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [{}, {"type": "a"}, {"type": "a", "major": -1, "minor": -1}, {"major": None}],
)
def test_all_devices_denied(
    unified: Layout, allow: Allow, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    """Engines begin with this rule; the user can access no other devices anyway."""
    monkeypatch.setattr(control_files, "may_set_device_rules", lambda: False)
    allow("user", "user/session")
    reach(unified, devices=[{"allow": False, **rule}])


@pytest.mark.parametrize(
    "rule",
    [{"type": "c"}, {"type": "a", "major": 1}, {"minor": 0}, {"type": "b", "major": -1}],
)
def test_some_devices_denied(
    unified: Layout, allow: Allow, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    monkeypatch.setattr(control_files, "may_set_device_rules", lambda: False)
    allow("user", "user/session")
    with pytest.raises(ConfigError, match="single device") as caught:
        reach(unified, devices=[{"allow": True}, {"allow": False, **rule}])
    assert caught.value.where == "linux.resources.devices[1]"
