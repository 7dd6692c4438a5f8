"""Records on disk: whatever a file contains, a command reports it in a line that names the file.

The first byte of an input selects the file: ``s`` state.json, ``c`` cgroup.json, ``m`` mounts.json,
``r`` root-mount.json, ``k`` a container's record of the manager, ``p`` a file of a pod, ``e`` the
manager's events, ``l`` an app's log.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from ociruntime.base import json_files
from ociruntime.manager.containers import container_records, events
from ociruntime.manager.containers.pod_status import PodStatus
from ociruntime.manager.containers.restarts import should_restart
from ociruntime.pods.store.log_reader import Assembler
from ociruntime.runtime.lifecycle import container, mounts_add_remove, root_mount
from ociruntime.runtime.lifecycle.fast_path_record import entry_text
from ociruntime.runtime.spec.state_document import state_output
from tests.fuzz.mutation import change_lines, json_mutator
from tests.fuzz.target import Target, empty_directory, refusals
from tests.unit.runtime.lifecycle.test_fast_path_record import FACTS

_NAMES = (*FACTS, "path", "placements", "unit", "user", "subgroup", "controllers", "name",
          "mountpoint", "version", "existing", "adopted", "rootfs", "number", "unique", "boot",
          "namespace", "device", "source", "pid", "started", "inside", "may_mount", "spec",
          "image", "restart_policy", "last", "exit_code")  # fmt: skip
_mutate_json = json_mutator(_NAMES)
_RECORD = container_records.Record(
    "0" * 64, "web", "a", "", ["sh"], "2026-01-01T00:00:00Z", "u", {"image": "a"}
)
_CGROUP = {
    "path": "/c1",
    "placements": [
        {"controllers": ["memory"], "name": "", "mountpoint": "/nowhere", "version": 1,
         "existing": 0, "adopted": False}
    ],
}  # fmt: skip


def _container(directory: Path) -> None:
    found = container.load(str(directory.parent), "one")
    found.status()
    found.seccomp_agent()
    container.document(found, "running")
    described = state_output(found.facts, "running", found.pid, "root")
    json.dumps(described)
    entry_text(found.facts, None, 0, "root")


def _cgroup(directory: Path) -> None:
    cgroup = container.recorded_cgroup(str(directory))
    assert isinstance(cgroup.paths, dict)
    cgroup.hierarchies()
    assert isinstance(cgroup.adopted, bool)


def _manager(data: bytes) -> None:
    record = container_records.from_text(data)
    json.dumps(container_records.answer(record, PodStatus()))
    should_restart(record)
    assert container_records.from_text(container_records.to_text(record)) == record


def _log(data: bytes) -> None:
    assembler = Assembler("web")
    for line in [*assembler.add(data.split(b"\n")), *assembler.rest()]:
        assert isinstance(line.text, bytes)


_FILES: dict[bytes, tuple[str, Callable[[Path], object]]] = {
    b"s": ("state.json", _container),
    b"c": ("cgroup.json", _cgroup),
    b"m": ("mounts.json", lambda place: mounts_add_remove.read_added(str(place))),
    b"r": ("root-mount.json", lambda place: root_mount.read(str(place)).id),
    b"p": ("pod", lambda place: json_files.read(f"{place}/pod")),
    b"e": ("events", lambda place: list(events._read(f"{place}/events"))),
}


def run(data: bytes) -> None:
    kind, content = data[:1], data[1:]
    if kind in _FILES:
        name, read = _FILES[kind]
        directory = empty_directory("state") / "one"
        directory.mkdir()
        (directory / name).write_bytes(content)
        with refusals():
            read(directory)
    elif kind == b"k":
        with refusals():
            _manager(content)
    elif kind == b"l":
        _log(content)


def seeds() -> Iterator[bytes]:
    yield b"s" + json.dumps(FACTS).encode()
    agent = {**FACTS, "seccompAgent": ["/nowhere", "m"], "hooks": {"poststop": [{"path": "/h"}]}}
    yield b"s" + json.dumps(agent).encode()
    yield b"c" + json.dumps(_CGROUP).encode()
    yield b"c" + json.dumps({**_CGROUP, "unit": "a.scope", "user": False, "subgroup": ""}).encode()
    yield b'm[["/data", 41, 7], ["/etc/x", 42, 0]]'
    mount = {"rootfs": "/r", "number": 1, "unique": 2, "boot": "b", "namespace": 3, "device": "0:1"}
    mount |= {"source": "/", "pid": 4, "started": 5, "inside": [1], "may_mount": True}
    yield b"r" + json.dumps(mount).encode()
    yield b"k" + container_records.to_text(_RECORD)
    yield b'p{"acVersion": "0.8.11", "apps": []}'
    yield b'e{"time": "2026-01-01T00:00:00+00:00", "kind": "start", "id": "a", "attributes": {}}\n'
    yield b"l2026-01-01T00:00:00Z stdout F a\n2026-01-01T00:00:00Z stderr P b\n"


def mutate(data: bytes, rng: random.Random) -> bytes:
    kind = data[:1] if data else rng.choice((*_FILES, b"k", b"l"))
    if kind in (b"e", b"l") and rng.random() < 0.5:
        return kind + change_lines(data[1:], rng, rng.choice((b"\n", b" ", b'"')))
    return kind + bytes(_mutate_json(data[1:], rng))


TARGET = Target(
    run,
    (
        "runtime/lifecycle/container.py",
        "runtime/lifecycle/fast_path_record.py",
        "manager/containers/container_records.py",
        "manager/containers/events.py",
        "base/json_files.py",
        "base/json_text.py",
        "pods/store/log_reader.py",
    ),
    seeds,
    mutate,
)
