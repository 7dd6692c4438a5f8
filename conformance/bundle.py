"""Bundles created at run time: a config that a case edits, and a root file system."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance import template
from conformance.template import ABSENT, PROBE, Json, mount_entry

__all__ = ["ABSENT", "Bundle", "Json", "mount_entry", "words_of"]


def words_of(actions: Sequence[str]) -> list[str]:
    """``["touch /out/x", "exit 3"]`` -> ``["touch", "/out/x", "--", "exit", "3"]``."""
    words: list[str] = []
    for action in actions:
        words += ["--"] if words else []
        words += shlex.split(action)
    return words


class Bundle:
    """A directory with ``config.json``, written out by ``save`` (every create does it).

    ``log`` is a host directory that hooks of all namespaces may write to.
    """

    def __init__(self, path: Path, probe: Path, config: Json) -> None:
        self.path = path
        self.probe = probe
        self.config = config
        self.rootfs = path / "rootfs"
        self.log = path / "log"
        self._text: bytes | None = None
        template.lay_out(self.rootfs, probe)
        self.log.mkdir()
        self.log.chmod(0o777)

    @property
    def process(self) -> Any:
        """``process`` of the config."""
        return self.config["process"]

    @property
    def linux(self) -> Any:
        """``linux`` of the config."""
        return self.config["linux"]

    @property
    def resources(self) -> Any:
        """``linux.resources``, made when it is not there."""
        return self.linux.setdefault("resources", {})

    @property
    def mounts(self) -> Any:
        """``mounts`` of the config."""
        return self.config["mounts"]

    def change(self, **changes: Any) -> Bundle:
        """Lay changes over the config; a member that is ABSENT is removed."""
        template.merge(self.config, changes)
        return self

    def args(self, *args: str) -> Bundle:
        """Set ``process.args``."""
        self.process["args"] = list(args)
        return self

    def does(self, *actions: str) -> Bundle:
        """Have the container do these actions of the probe, one after the other."""
        return self.args(PROBE, *words_of(actions))

    def mount(
        self, destination: str, fstype: str | None, source: str | None, *options: str
    ) -> Bundle:
        """Append a mount."""
        self.mounts.append(mount_entry(destination, fstype, source, *options))
        return self

    def bind(self, source: Path | str, destination: str, *options: str) -> Bundle:
        """Append a bind mount; ``bind`` is added unless the options contain it."""
        said = () if {"bind", "rbind"} & set(options) else ("bind",)
        return self.mount(destination, "bind", str(source), *said, *options)

    def namespace(self, kind: str, path: Path | str | None = None) -> Bundle:
        """Have a namespace of that kind, new or by path; replaces an earlier entry."""
        self.without_namespace(kind)
        entry = {"type": kind} if path is None else {"type": kind, "path": str(path)}
        self.linux["namespaces"].append(entry)
        return self

    def without_namespace(self, kind: str) -> Bundle:
        """Remove the entry of that kind."""
        self.linux["namespaces"] = [n for n in self.linux["namespaces"] if n["type"] != kind]
        return self

    def capabilities(self, *names: str, ambient: Sequence[str] = ()) -> Bundle:
        """Set bounding, effective and permitted; inheritable too where ambient requires it."""
        sets = {kind: list(names) for kind in ("bounding", "effective", "permitted")}
        self.process["capabilities"] = sets | {
            "inheritable": list(ambient),
            "ambient": list(ambient),
        }
        return self

    def user_namespace(self, host_id: int = 100000, size: int = 65536) -> Bundle:
        """A user namespace with one range of ids; the root file system is given to it."""
        self.namespace("user")
        mapping = {"containerID": 0, "hostID": host_id, "size": size}
        self.linux["uidMappings"] = [dict(mapping)]
        self.linux["gidMappings"] = [dict(mapping)]
        for place, directories, _ in os.walk(self.rootfs):
            for name in ["", *directories]:
                os.chown(os.path.join(place, name), host_id, host_id, follow_symlinks=False)
        return self

    def hook(
        self,
        kind: str,
        *asks: str,
        word: str | None = None,
        then: Sequence[str] = (),
        **fields: Any,
    ) -> Bundle:
        """Append a hook that notes what it was given; see ``hooked``.

        It is the probe of the host, but for startContainer that of the container.  ``asks``:
        ``stat=``, ``read=``, ``list=``, ``open=`` as for facts, with ``%p`` for the pid in the
        state.  ``then``: further actions.  ``fields``: timeout, env...
        """
        inside = kind == "startContainer"
        file = "/out/hooks" if inside else str(self.log / "hooks")
        args = ["probe", "hook", file, word or kind, *asks]
        args += ["--", *words_of(then)] if then else []
        entry: Json = {"path": PROBE if inside else str(self.probe), "args": args}
        template.merge(entry, fields)
        return self.raw_hook(kind, entry)

    def raw_hook(self, kind: str, entry: Json) -> Bundle:
        """Append a hook unchanged."""
        self.config.setdefault("hooks", {}).setdefault(kind, []).append(entry)
        return self

    def hooked(self, word: str | None = None) -> list[Json]:
        """Return the records of all hooks so far (of one word), the earliest first.

        Each has the facts of the hook's process, with ``word`` and ``stdin`` (text).
        """
        notes: list[Json] = []
        for file in (self.log / "hooks", self.rootfs / "out" / "hooks"):
            if file.exists():
                lines = file.read_text(errors="surrogateescape").splitlines()
                notes += [json.loads(line) for line in lines]
        notes.sort(key=lambda note: int(note["realtime_ns"]))
        return [note for note in notes if word in (None, note["word"])]

    def words(self) -> list[str]:
        """Return the words of the hooks that ran so far, in order."""
        return [str(note["word"]) for note in self.hooked()]

    def raw(self, text: str | bytes) -> Bundle:
        """Have exactly this in config.json."""
        self._text = text.encode() if isinstance(text, str) else text
        return self

    def save(self) -> Bundle:
        """Write config.json."""
        text = self._text
        if text is None:
            text = json.dumps(self.config, indent=1).encode()
        (self.path / "config.json").write_bytes(text)
        return self
