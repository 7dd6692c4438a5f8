"""The lines that an engine needs to know this runtime, and what its files say of it; pure."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAME = "ociruntime"
PRIORITY = 50  # of the drop-in files among those of others
DEFAULT, NAMED = "the default", "a named runtime"

# podman decides by name what a runtime supports, and these lists replace its own.
SUPPORTS_JSON = (NAME, "crun", "runc", "kata", "runsc", "youki", "krun", "crun-vm", "crun-wasm")
SUPPORTS_NO_CGROUP = (NAME, "crun", "krun")
# The plugin of containerd that reads the runtimes, newest first.
CRI_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
RUNC_SHIM = "io.containerd.runc.v2"


@dataclass(frozen=True)
class Entry:
    """A runtime as an engine is to know it: ``program`` is its absolute path."""

    program: str
    default: bool = False


@dataclass(frozen=True)
class CriEntry:
    """The same for containerd: with the plugin and the version of its configuration.

    ``runc`` has the settings of the runtime runc there, which an imported file may replace.
    """

    program: str
    default: bool
    plugin: str
    version: int
    runc: Mapping[str, Any]


def podman_lines(entry: Entry) -> str:
    """Return the drop-in file of podman and buildah."""
    return "\n".join(
        [
            "[engine]",
            *([f"runtime = {_quoted(NAME)}"] if entry.default else []),
            f"runtime_supports_json = {_listed(SUPPORTS_JSON)}",
            f"runtime_supports_nocgroup = {_listed(SUPPORTS_NO_CGROUP)}",
            "",
            "[engine.runtimes]",
            f"{NAME} = [{_quoted(entry.program)}]",
            "",
        ]
    )


def docker_lines(entry: Entry) -> str:
    """Return Docker's ``daemon.json``."""
    document: dict[str, Any] = {"runtimes": {NAME: {"path": entry.program}}}
    if entry.default:
        document["default-runtime"] = NAME
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def is_docker_lines(text: str) -> bool:
    """Return whether ``docker_lines`` has made the text: JSON has no comments to mark it with."""
    use = find_use("docker", text)
    return use is not None and text == docker_lines(Entry(use.program, use.how == DEFAULT))


def crio_lines(entry: Entry) -> str:
    """Return the drop-in file of CRI-O."""
    return "\n".join(
        [
            *(["[crio.runtime]", f"default_runtime = {_quoted(NAME)}", ""] * entry.default),
            f"[crio.runtime.runtimes.{NAME}]",
            f"runtime_path = {_quoted(entry.program)}",
            'runtime_type = "oci"',
            'runtime_root = "/run/ociruntime"',
            "",
        ]
    )


def containerd_lines(entry: CriEntry) -> str:
    """Return the lines for containerd, to be imported or added."""
    plugin = f"plugins.{_quoted(entry.plugin)}.containerd"
    options = entry.runc.get("options", {})
    runc = {name: value for name, value in entry.runc.items() if name != "options"}
    return "\n".join(
        [
            f"version = {entry.version}",
            "",
            *([f"[{plugin}]", f"default_runtime_name = {_quoted(NAME)}", ""] * entry.default),
            f"[{plugin}.runtimes.{NAME}]",
            f"runtime_type = {_quoted(RUNC_SHIM)}",
            "",
            f"[{plugin}.runtimes.{NAME}.options]",
            f"BinaryName = {_quoted(entry.program)}",
            *(["SystemdCgroup = true"] * (options.get("SystemdCgroup") is True)),
            "",
            *(
                ["# Stays as it is: without these lines, those above would replace it."]
                * bool(runc)
            ),
            *_table(f"{plugin}.runtimes.runc", runc),
            *_table(f"{plugin}.runtimes.runc.options", options),
        ]
    )


def _table(name: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table, without settings that are zero, and nothing if all are."""
    lines = [
        f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in settings.items()
        if value and not isinstance(value, Mapping)
    ]
    return [f"[{name}]", *lines, ""] if lines else []


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _quoted(name)


@dataclass(frozen=True)
class Use:
    """How an engine's configuration uses this runtime: ``how`` is one of the constants."""

    how: str
    program: str


# Engine -> the paths of the table of runtimes and of the default's name in its configuration.
_PLACES: dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
    "podman": ((("engine", "runtimes"), ("engine", "runtime")),),
    "docker": ((("runtimes",), ("default-runtime",)),),
    "containerd": tuple(
        (
            ("plugins", plugin, "containerd", "runtimes"),
            ("plugins", plugin, "containerd", "default_runtime_name"),
        )
        for plugin in CRI_PLUGINS
    ),
    "crio": ((("crio", "runtime", "runtimes"), ("crio", "runtime", "default_runtime")),),
}


def find_use(engine: str, *texts: str) -> Use | None:
    """Return how a configuration uses this runtime, None if it does not.

    A later text overrides an earlier one.  A runtime is this one if its program's name is.  A text
    that cannot be parsed uses nothing.
    """
    document: dict[str, Any] = {}
    for text in texts:
        try:
            one = json.loads(text) if engine == "docker" else tomllib.loads(text)
        except ValueError:
            continue
        if isinstance(one, dict):
            document = _merged(document, one)
    for runtimes_at, default_at in _PLACES[engine]:
        runtimes = _member(document, runtimes_at)
        if not isinstance(runtimes, Mapping):
            continue
        for name, runtime in runtimes.items():
            program = _program(runtime)
            if os.path.basename(program) == NAME:
                default = _member(document, default_at)
                return Use(DEFAULT if default in (name, program) else NAMED, program)
    return None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {name: (below[name], above[name]) for name in below.keys() & above.keys()}
    tables = {
        name: _merged(*pair)
        for name, pair in both.items()
        if isinstance(pair[0], dict) and isinstance(pair[1], dict)
    }
    return {**below, **above, **tables}


def _program(runtime: object) -> str:
    """Return the path of a runtime's program: each engine has it elsewhere."""
    if isinstance(runtime, list):  # podman: the first that exists
        return next((each for each in runtime if isinstance(each, str)), "")
    for place in (("path",), ("runtime_path",), ("options", "BinaryName")):
        if isinstance(found := _member(runtime, place), str) and found:
            return found
    return ""


def _member(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def cri_plugin(document: Mapping[str, Any]) -> str:
    """Return which of ``CRI_PLUGINS`` a containerd has, by its configuration; "" for none."""
    plugins = document.get("plugins", {})
    return next((name for name in CRI_PLUGINS if name in plugins), "")


def runc_settings(document: Mapping[str, Any], plugin: str) -> Mapping[str, Any]:
    """Return the settings of containerd's runtime runc, none if it has no such runtime."""
    found = _member(document, ("plugins", plugin, "containerd", "runtimes", "runc"))
    return found if isinstance(found, Mapping) else {}


def lost(before: Mapping[str, Any], after: Mapping[str, Any], allowed: tuple[str, ...]) -> str:
    """Return the path of a setting of ``before`` that ``after`` lacks or changes, "" for none.

    ``allowed`` are names of settings that may change.
    """
    for name, value in before.items():
        if name in allowed:
            continue
        if isinstance(value, Mapping):
            inner = after.get(name, {})
            if path := lost(value, inner if isinstance(inner, Mapping) else {}, allowed):
                return f"{name}.{path}"
        elif after.get(name) != value and (value or name in after):  # a zero value may be left out
            return name
    return ""


def _quoted(text: str) -> str:
    """Return a basic string of TOML; ``text`` is printable."""
    return json.dumps(text, ensure_ascii=False)


def _listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(_quoted(name) for name in names)}]"
