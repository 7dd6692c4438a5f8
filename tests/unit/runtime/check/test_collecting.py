"""Taking refusals out one by one finds all of them, each at its place in the file."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.json_text import parse
from ociruntime.runtime.check import check_bundle
from ociruntime.runtime.check.check_bundle import (
    Document,
    _warning,
    check_config,
    collect,
    examine_bundle,
    path_of,
    steps_of,
)
from ociruntime.runtime.check.check_host_for_bundle import covered, executable, find_in_root
from ociruntime.runtime.check.finding import Fault, Json
from ociruntime.runtime.cli.check import bundle_text, bundle_values, uncoloured
from ociruntime.runtime.spec.check_schema import check_schema
from ociruntime.runtime.spec.default_config import default_config
from tests.errors.broken_bundles import BROKEN_BUNDLES, BrokenBundle
from tests.unit.runtime.check.made_up_host import MadeUp

LOADING = [entry for entry in BROKEN_BUNDLES if entry.stage == "spec" and entry.config()]

# These make a second fault, which `create` would tell next.
SEVERAL = ("mapping-overlap", "mounts-without-namespace", "user-without-mappings")


def faults_of(config: Json) -> list[Fault]:
    document, found = Document(config), list[Fault]()
    if collect(document, check_schema, found):
        collect(document, check_config, found)
    return found


def first_error(config: Json) -> ConfigError | None:
    try:
        check_config(config)
    except ConfigError as error:
        return error
    return None


@pytest.mark.parametrize("entry", LOADING, ids=lambda entry: entry.name)
def test_one_fault_is_one_fault(entry: BrokenBundle) -> None:
    """In the words of `create`; taking it out brings no other one up."""
    data = entry.config()
    assert data is not None
    try:
        config = parse(data, "config.json")
    except ConfigError:
        return  # no JSON: nothing to collect
    error = first_error(config)
    if error is None:
        return  # the root filesystem is not there, or the like
    found = faults_of(config)
    if entry.name not in SEVERAL:
        assert [each.where for each in found] == [error.where]
    told = f"{found[0].where}: {found[0].message}" if found[0].where else found[0].message
    assert told == error.message
    assert found[0].hint == error.hint


def test_many() -> None:
    config: Any = default_config()
    config["mounts"][1]["options"] = ["ro", 7, "rw", None]
    config["mounts"][2]["destination"] = 5
    del config["mounts"][4]["type"]
    config["process"]["env"] += ["A", "=b", "C"]
    config["linux"]["namespaces"] += [{"type": "pid"}, {"type": "mnt"}, {"type": "uts"}]
    config["hostname"] = "x" * 65
    del config["process"]["args"]
    before = json.dumps(config)
    assert sorted(each.where for each in faults_of(config)) == sorted(
        [
            "mounts[1].options[1]",
            "mounts[1].options[3]",
            "mounts[2].destination",
            "mounts[4].type",
            "process.env[2]",
            "process.env[3]",
            "process.env[4]",
            "linux.namespaces[5].type",
            "linux.namespaces[6].type",
            "linux.namespaces[7].type",
            "hostname",
            "process.args",
        ]
    )
    assert json.dumps(config) == before, "the file's own document is left alone"


@pytest.mark.parametrize("config", [[], {}, 5, None, {"process": 5, "root": [], "linux": ""}])
def test_it_always_ends(config: Json) -> None:
    assert faults_of(config)


@pytest.mark.parametrize("path", ["a", "a.b[3].c", 'a["b.c"][0]', 'x["\\"]"].y', "a[0][1]"])
def test_paths(path: str) -> None:
    assert path_of(steps_of(path)) == path


def test_report() -> None:
    found = [Fault("a.b", "is wrong", "mend it"), Fault("", "old", "", warning=True)]
    text = bundle_text("/bundle", found, 80, uncoloured)
    assert "fault    a.b: is wrong\n         fix: mend it\nwarning  old\n" in text
    assert text.endswith("\n1 fault, 1 warning in /bundle\n")
    assert bundle_values("/b", found)["canRun"] is False
    assert bundle_values("/b", found[1:])["canRun"] is True
    assert bundle_text("/b", [], 80, uncoloured) == "no faults in /b\n"


def test_find_in_root(tmp_path: Path) -> None:
    """Links of the image lead no further than its root, as the container sees them."""
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/sh").write_text("")
    (tmp_path / "bin").symlink_to("/usr/bin")
    (tmp_path / "up").symlink_to("../../../../usr/bin/sh")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/etc/passwd")
    root = str(tmp_path)
    assert find_in_root(root, "/bin/sh") == f"{root}/usr/bin/sh"
    assert find_in_root(root, "/up") == f"{root}/usr/bin/sh"
    assert find_in_root(root, "/bin/../sh") == ""
    assert find_in_root(root, "/loop") == ""
    assert find_in_root(root, "/out") == ""


def test_covered() -> None:
    assert covered("/usr/bin/sh", ["/proc", "/usr"])
    assert covered("/usr/bin/sh", ["usr/bin/"])
    assert not covered("/usr2/sh", ["/usr", "/proc"])


@pytest.mark.parametrize(
    ("mode", "uid", "able"),
    [(0o755, 0, True), (0o644, 0, False), (0o700, 5, False), (0o705, 5, True), (0o100, 0, True)],
)
def test_executable(tmp_path: Path, mode: int, uid: int, able: bool) -> None:
    file = tmp_path / "program"
    file.write_text("")
    file.chmod(mode)
    assert executable(str(file), {"uid": uid, "gid": 5}, {}) == able


@pytest.mark.parametrize(("arguments", "where"), [([], "process.args"), ([""], "process.args[0]")])
def test_no_program(arguments: list[str], where: str) -> None:
    """The arguments get a substitute, so that the other checks continue."""
    config: Any = default_config()
    config["process"]["args"] = arguments
    config["process"]["noNewPrivileges"] = "yes"
    assert {each.where for each in faults_of(config)} == {where, "process.noNewPrivileges"}


def test_a_check_that_never_passes() -> None:
    """A faulty check ends after a limited number of faults."""
    calls = []

    def refuse(config: Json) -> None:
        calls.append(config)
        raise ConfigError("a[0]", "is wrong")

    found: list[Fault] = []
    assert not collect(Document({"a": [0] * 2000}), refuse, found)
    assert len(calls) == len(found) == 1000
    assert found[-1].where == "a[999]"


def test_warning_without_a_path() -> None:
    """A text before the colon that is not a JSON path belongs to the message."""
    document = Document({"a": [1, 2]})
    document.remove("a[0]")
    assert _warning(document, "a[0]: is ignored") == Fault("a[1]", "is ignored", "", warning=True)
    for text in ("nothing is limited", "on this host: nothing is limited"):
        assert _warning(document, text) == Fault("", text, "", warning=True)


def examine(tmp_path: Path, config: Json) -> list[Fault]:
    (tmp_path / "config.json").write_text(json.dumps(config))
    context: Any = SimpleNamespace()
    options: Any = SimpleNamespace(config="", bundle=str(tmp_path))
    return examine_bundle(context, options, MadeUp({}))


def test_config_without_an_object(tmp_path: Path) -> None:
    (found,) = examine(tmp_path, [])
    assert found.where == "config.json"
    assert "an object, got an array" in found.message


def test_host_error_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the host, such as an unreadable file, does not hide the bundle's faults."""

    def fail(*_: object) -> None:
        raise HostError("read the cgroups", OSError(13, "Permission denied"), "ask root")

    monkeypatch.setattr(check_bundle, "decide", fail)
    found = examine(tmp_path, {**default_config(), "root": {"path": "gone"}})
    assert [each.where for each in found] == ["root.path", ""]
    assert found[1] == Fault("", "read the cgroups: permission denied", "ask root")
