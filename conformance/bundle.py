"""Bundles for test cases: a config that the case edits, and a root filesystem with the probe."""

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
    """Return the probe's arguments for several actions, separated by ``--``.

    ``["touch /out/x", "exit 3"]`` becomes ``["touch", "/out/x", "--", "exit", "3"]``.
    """
    words: list[str] = []
    for action in actions:
        words += ["--"] if words else []
        words += shlex.split(action)
    return words


class Bundle:
    """A bundle directory; ``config`` is written to config.json by ``save``, before each create.

    ``log`` is a directory of the host for the records of hooks, writable for every user.
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
        """``linux.resources`` of the config, created if missing."""
        return self.linux.setdefault("resources", {})

    @property
    def mounts(self) -> Any:
        """``mounts`` of the config."""
        return self.config["mounts"]

    def change(self, **changes: Any) -> Bundle:
        """Merge changes into the config; a member with the value ABSENT is removed."""
        template.merge(self.config, changes)
        return self

    def args(self, *args: str) -> Bundle:
        """Set ``process.args``."""
        self.process["args"] = list(args)
        return self

    def does(self, *actions: str) -> Bundle:
        """Set ``process.args`` to the probe with these actions, which it runs in order."""
        return self.args(PROBE, *words_of(actions))

    def mount(
        self, destination: str, fstype: str | None, source: str | None, *options: str
    ) -> Bundle:
        """Append a mount."""
        self.mounts.append(mount_entry(destination, fstype, source, *options))
        return self

    def bind(self, source: Path | str, destination: str, *options: str) -> Bundle:
        """Append a bind mount; add the option ``bind`` unless there is ``bind`` or ``rbind``."""
        implied = () if {"bind", "rbind"} & set(options) else ("bind",)
        return self.mount(destination, "bind", str(source), *implied, *options)

    def namespace(self, kind: str, path: Path | str | None = None) -> Bundle:
        """Set the entry of ``linux.namespaces`` of that type: a new one, or one to join by path."""
        self.without_namespace(kind)
        entry = {"type": kind} if path is None else {"type": kind, "path": str(path)}
        self.linux["namespaces"].append(entry)
        return self

    def without_namespace(self, kind: str) -> Bundle:
        """Remove the entry of ``linux.namespaces`` of that type."""
        self.linux["namespaces"] = [n for n in self.linux["namespaces"] if n["type"] != kind]
        return self

    def capabilities(self, *names: str, ambient: Sequence[str] = ()) -> Bundle:
        """Set bounding, effective, permitted to ``names``, inheritable, ambient to ``ambient``."""
        sets = {kind: list(names) for kind in ("bounding", "effective", "permitted")}
        self.process["capabilities"] = sets | {
            "inheritable": list(ambient),
            "ambient": list(ambient),
        }
        return self

    def user_namespace(self, host_id: int = 100000, size: int = 65536) -> Bundle:
        """Add a user namespace with one id mapping; chown the root filesystem to its root."""
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
        """Append a hook that records how it was called; ``hooked`` returns the records.

        The hook is the probe: the host's copy, for startContainer the container's.  ``asks`` are
        ``stat=``, ``read=``, ``list=``, ``open=`` as for ``Context.probe``, with ``%p`` for the pid
        in the state.  ``word`` identifies the record (default: the kind).  ``then``: further
        actions.  ``fields``: further members of the entry, such as timeout and env.
        """
        inside = kind == "startContainer"
        file = "/out/hooks" if inside else str(self.log / "hooks")
        args = ["probe", "hook", file, word or kind, *asks]
        args += ["--", *words_of(then)] if then else []
        entry: Json = {"path": PROBE if inside else str(self.probe), "args": args}
        template.merge(entry, fields)
        return self.raw_hook(kind, entry)

    def raw_hook(self, kind: str, entry: Json) -> Bundle:
        """Append a hook entry unchanged."""
        self.config.setdefault("hooks", {}).setdefault(kind, []).append(entry)
        return self

    def hooked(self, word: str | None = None) -> list[Json]:
        """Return the records of the hooks that ran so far, the earliest first.

        With ``word``, only those of that word.  A record has the probe's facts about the hook's
        process, and ``word`` and ``stdin`` (text).
        """
        records: list[Json] = []
        for file in (self.log / "hooks", self.rootfs / "out" / "hooks"):
            if file.exists():
                lines = file.read_text(errors="surrogateescape").splitlines()
                records += [json.loads(line) for line in lines]
        records.sort(key=lambda record: int(record["realtime_ns"]))
        return [record for record in records if word in (None, record["word"])]

    def words(self) -> list[str]:
        """Return the words of the hooks that ran so far, in order."""
        return [str(record["word"]) for record in self.hooked()]

    def raw(self, text: str | bytes) -> Bundle:
        """Write this text to config.json instead of the config."""
        self._text = text.encode() if isinstance(text, str) else text
        return self

    def save(self) -> Bundle:
        """Write config.json."""
        text = self._text
        if text is None:
            text = json.dumps(self.config, indent=1).encode()
        (self.path / "config.json").write_bytes(text)
        return self
