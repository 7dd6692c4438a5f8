"""Generate the configuration that adds ociruntime to an engine, and parse an engine's files.

All functions in this module are pure.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAME = "ociruntime"
PRIORITY = 50  # number in the names of our drop-in files, which decides their order
DEFAULT, NAMED = "the default", "a named runtime"

# podman derives a runtime's features from its name; these lists replace podman's defaults.
SUPPORTS_JSON = (NAME, "crun", "runc", "kata", "runsc", "youki", "krun", "crun-vm", "crun-wasm")
SUPPORTS_NO_CGROUP = (NAME, "crun", "krun")
# Names of containerd's CRI plugin, whose settings contain the runtimes; newest first.
CRI_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
RUNC_SHIM = "io.containerd.runc.v2"


@dataclass(frozen=True)
class Entry:
    """The runtime to add to an engine; ``program`` is the absolute path of its executable."""

    program: str
    default: bool = False


@dataclass(frozen=True)
class CriEntry:
    """The runtime to add to containerd, and facts about containerd's configuration.

    ``plugin`` is the name of the CRI plugin, ``version`` the version of the configuration's format.
    ``runc`` are containerd's settings for the runtime runc.  ociruntime's file repeats them,
    because an imported file may replace the whole section.
    """

    program: str
    default: bool
    plugin: str
    version: int
    runc: Mapping[str, Any]


def podman_lines(entry: Entry) -> str:
    """Return the text of the drop-in file for podman and buildah (containers.conf)."""
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
    """Return the text of a ``daemon.json`` that adds the runtime to Docker."""
    document: dict[str, Any] = {"runtimes": {NAME: {"path": entry.program}}}
    if entry.default:
        document["default-runtime"] = NAME
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def is_docker_lines(text: str) -> bool:
    """Return whether ``docker_lines`` wrote the text.

    JSON has no comments that could mark a file as ours.
    """
    use = find_use("docker", text)
    return use is not None and text == docker_lines(Entry(use.program, use.how == DEFAULT))


def crio_lines(entry: Entry) -> str:
    """Return the text of the drop-in file for CRI-O."""
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
    """Return the TOML text for containerd's configuration: a file to import, or lines to add."""
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
                ["# The settings of runc, unchanged: the tables above would replace them."]
                * bool(runc)
            ),
            *_table(f"{plugin}.runtimes.runc", runc),
            *_table(f"{plugin}.runtimes.runc.options", options),
        ]
    )


def _table(name: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the lines of a TOML table without empty settings; [] if nothing remains.

    A setting is empty if it is 0, "" or false.
    """
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
    """The use of ociruntime in an engine's configuration: ``how`` is DEFAULT or NAMED."""

    how: str
    program: str


# Engine -> (path of the table of runtimes, path of the default runtime's name) in its settings.
_PATHS: dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
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
    """Return how an engine's configuration files use ociruntime; None if they do not.

    ``texts`` are the contents of the files. Later texts override earlier ones; texts that cannot be
    parsed are ignored.  A runtime counts as ociruntime if the file name of its program is
    ``ociruntime``.
    """
    document: dict[str, Any] = {}
    for text in texts:
        try:
            parsed = json.loads(text) if engine == "docker" else tomllib.loads(text)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            document = _merged(document, parsed)
    for runtimes_path, default_path in _PATHS[engine]:
        runtimes = _member(document, runtimes_path)
        if not isinstance(runtimes, Mapping):
            continue
        for name, runtime in runtimes.items():
            program = _program(runtime)
            if os.path.basename(program) == NAME:
                default = _member(document, default_path)
                return Use(DEFAULT if default in (name, program) else NAMED, program)
    return None


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return ``below`` with the settings of ``above`` on top; tables are merged recursively."""
    both = {name: (below[name], above[name]) for name in below.keys() & above.keys()}
    tables = {
        name: _merged(*pair)
        for name, pair in both.items()
        if isinstance(pair[0], dict) and isinstance(pair[1], dict)
    }
    return {**below, **above, **tables}


def _program(runtime: object) -> str:
    """Return the path of a runtime's program from an engine's settings; "" if there is none."""
    if isinstance(runtime, list):  # podman: the first that exists
        return next((each for each in runtime if isinstance(each, str)), "")
    for path in (("path",), ("runtime_path",), ("options", "BinaryName")):
        if isinstance(program := _member(runtime, path), str) and program:
            return program
    return ""


def _member(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def cri_plugin(document: Mapping[str, Any]) -> str:
    """Return the first of ``CRI_PLUGINS`` in containerd's configuration; "" if there is none."""
    plugins = document.get("plugins", {})
    return next((name for name in CRI_PLUGINS if name in plugins), "")


def runc_settings(document: Mapping[str, Any], plugin: str) -> Mapping[str, Any]:
    """Return containerd's settings for the runtime runc; {} if it has no such runtime."""
    settings = _member(document, ("plugins", plugin, "containerd", "runtimes", "runc"))
    return settings if isinstance(settings, Mapping) else {}


def lost_setting(
    before: Mapping[str, Any], after: Mapping[str, Any], allowed: tuple[str, ...]
) -> str:
    """Return the first setting of ``before`` that ``after`` lacks or changes; "" if there is none.

    The result is a path such as ``plugins.cri.sandbox_image``.  ``allowed``: names of settings that
    may change.
    """
    for name, value in before.items():
        if name in allowed:
            continue
        if isinstance(value, Mapping):
            inner = after.get(name, {})
            if path := lost_setting(value, inner if isinstance(inner, Mapping) else {}, allowed):
                return f"{name}.{path}"
        elif after.get(name) != value and (
            value or name in after
        ):  # containerd may omit zero values
            return name
    return ""


def _quoted(text: str) -> str:
    """Return ``text`` as a TOML basic string; it must consist of printable characters."""
    return json.dumps(text, ensure_ascii=False)


def _listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(_quoted(name) for name in names)}]"
