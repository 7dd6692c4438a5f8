"""Find all faults of a bundle, with the same checks as ``create`` and ``start``."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable

from ociruntime.base.errors import ConfigError, RuntimeFailure
from ociruntime.base.json_text import parse
from ociruntime.runtime.check.check_host_for_bundle import HOST_CHECKS
from ociruntime.runtime.check.finding import Fault, Host, Json
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.prepare_create import decide
from ociruntime.runtime.spec.bundle import Bundle, find_rootfs
from ociruntime.runtime.spec.check_schema import check_schema
from ociruntime.runtime.spec.config_errors import join
from ociruntime.runtime.spec.load_config import read
from ociruntime.runtime.spec.tolerated_settings import tolerate
from ociruntime.runtime.spec.validate import validate


def examine_bundle(context: Context, options: CreateOptions, host: Host) -> list[Fault]:
    """Return the faults of a bundle, followed by the warnings; do not change the host.

    Raises ConfigError if the bundle does not exist or its config.json is not JSON.
    """
    file = options.config or f"{options.bundle}/config.json"
    config = parse(read(file), file.rpartition("/")[2])
    tolerated = tolerate(config)
    document = Document(config)
    faults: list[Fault] = []
    warnings: list[str] = []
    if not collect(document, check_schema, faults):
        return faults
    whole = copy.deepcopy(
        document
    )  # a copy for the host checks: later checks remove values from ``document``
    if not collect(document, check_config, faults):
        return faults
    rootfs = _rootfs(document, options.bundle, faults)
    for check in HOST_CHECKS:
        for fault in check(whole.config, options.bundle, rootfs, host):
            where = whole.original(fault.where)
            if not document.has_changed(where):
                faults.append(fault._replace(where=where))

    def plan(config: Json) -> None:
        warnings[:] = check_config(config)
        bundle = Bundle(options.bundle, config, b"", rootfs or options.bundle, [])
        prepared = decide(context, options, bundle)
        prepared.cgroup.settings(prepared.resources)
        warnings.extend(prepared.plan.warnings)

    try:
        collect(document, plan, faults)
    except RuntimeFailure as error:
        faults.append(Fault("", error.message, error.hint))
    return _distinct(faults) + [_warning(document, each) for each in tolerated + warnings]


def check_config(config: Json) -> list[str]:
    """Check a config as ``create`` does; return the warnings.

    Checks the JSON types again, because ``Document.remove`` may have removed a required value.
    Raises ConfigError for an invalid value.
    """
    check_schema(config)
    return validate(config)


def _rootfs(document: Document, bundle: str, faults: list[Fault]) -> str:
    """Return the real path of the root filesystem; if it is missing, add a fault and return ""."""
    try:
        return find_rootfs(document.config["root"]["path"], bundle)
    except ConfigError as error:
        if not document.has_changed(error.where):
            message = error.message.removeprefix(f"{error.where}: ")
            faults.append(Fault(error.where, message, error.hint))
        return ""


def _distinct(faults: list[Fault]) -> list[Fault]:
    """Return only the first fault for each JSON path: the earlier a check, the more basic it is."""
    seen: dict[tuple[str, str], Fault] = {}
    for each in faults:
        seen.setdefault((each.where, "" if each.where else each.message), each)
    return list(seen.values())


def _warning(document: Document, text: str) -> Fault:
    """Convert a warning of the form ``JSON path: message`` to a Fault."""
    where, separator, message = text.partition(": ")
    if not separator or " " in where:
        return Fault("", text, "", warning=True)
    return Fault(document.original(where), message, "", warning=True)


# Collect all errors of a check that stops at the first error.
#
# The refused value is removed and the check repeated, so that the rules exist only in the checks.
# Removing an item of a list shifts the items after it; errors are reported with the paths of the
# original file.

_STEP = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|\.?([^.\[\]]+)')
_MOST = 1000  # errors to collect from one bundle
_ALL_IDS = [{"containerID": 0, "hostID": 0, "size": 4294967294}]
_USER = {"uid": 0, "gid": 0}

# Substitutes for required members of config.json: without them, no check could continue.  Errors
# about the substitutes are suppressed.
FILLED: dict[str, Json] = {
    "ociVersion": "1.0.2",
    "root": {"path": "rootfs"},
    "root.path": "rootfs",
    "process": {"user": _USER, "args": ["sh"], "cwd": "/"},
    "process.args": ["sh"],
    "process.cwd": "/",
    "process.user": _USER,
    "process.user.uid": 0,
    "process.user.gid": 0,
    "linux.uidMappings": _ALL_IDS,
    "linux.gidMappings": _ALL_IDS,
}
_KEPT = ("", "linux", "process")  # objects never removed for a missing member


def steps_of(where: str) -> list[str | int]:
    """Split a JSON path: ``a.b[3]["c.d"]`` -> ``["a", "b", 3, "c.d"]``."""
    return [_step(match) for match in _STEP.finditer(where)]


def _step(match: re.Match[str]) -> str | int:
    quoted, index, name = match.groups()
    if quoted:
        return str(json.loads(quoted))
    return int(index) if index else str(name)


def path_of(steps: list[str | int]) -> str:
    """Join the steps of a JSON path: ``["a", 3]`` -> ``a[3]``."""
    path = ""
    for step in steps:
        path = join(path, step)
    return path


class Document:
    """A copy of config.json from which invalid values are removed.

    Translates JSON paths in the copy to paths in the original file.
    """

    def __init__(self, config: Json) -> None:
        self.config = copy.deepcopy(config)
        self._places: dict[int, list[int]] = {}  # id of a list -> original indexes of its items
        self._touched: list[str] = []  # original paths of removed or added values
        self._held: list[object] = []  # keeps lists alive, so that no id is reused

    def __deepcopy__(self, memo: dict[int, Json]) -> Document:
        """Copy the document, including the record of the original indexes of its list items."""
        made = Document(None)
        made._touched = list(self._touched)
        made.config = self._copied(self.config, made)
        return made

    def original(self, where: str) -> str:
        """Translate the JSON path ``where`` in this copy to the path in the original file."""
        value, path = self.config, ""
        for match in _STEP.finditer(where):
            step, text = _step(match), match[0]
            if isinstance(step, int) and isinstance(value, list) and step < len(value):
                text = f"[{self._places_of(value)[step]}]"
            path += text
            value = _child(value, step)
        return path

    def has_changed(self, where: str) -> bool:
        """Return whether the original value at ``where`` is no longer in this copy.

        Either the value or one of its parents was removed or replaced.  ``where`` is a JSON path in
        the original file.
        """
        return any(
            where == each or where.startswith((f"{each}.", f"{each}[")) for each in self._touched
        )

    def emptied(self, where: str) -> bool:
        """Return whether the value at ``where`` is empty because its items were removed."""
        value = self.config
        for step in steps_of(where):
            value = _child(value, step)
        inside = tuple(f"{self.original(where)}{mark}" for mark in ".[")
        return not value and any(each.startswith(inside) for each in self._touched)

    def remove(self, where: str) -> bool:
        """Remove the value at the JSON path ``where``; return False if that is impossible.

        If the value is missing, adds the substitute from ``FILLED``; without a substitute, removes
        the parent of the value.
        """
        steps = steps_of(where)
        parents = [self.config]
        for step in steps:
            parents.append(_child(parents[-1], step))
        if not steps or parents[0] is None:
            return False
        if parents[-1] is not None or _has(parents[-2], steps[-1]):
            self._touched.append(self.original(where))
            self._delete(parents[-2], steps[-1])
            return True
        return self._fill(where, steps, parents) or self._remove_around(steps, parents)

    def _fill(self, where: str, steps: list[str | int], parents: list[Json]) -> bool:
        if where not in FILLED or where in self._filled() or not isinstance(parents[-2], dict):
            return False
        self._touched += [where, f"filled {where}"]
        parents[-2][steps[-1]] = copy.deepcopy(FILLED[where])
        return True

    def _remove_around(self, steps: list[str | int], parents: list[Json]) -> bool:
        depth = next(i for i, each in enumerate(parents) if each is None) - 1
        around = path_of(steps[:depth])
        return around not in _KEPT and self.remove(around)

    def _copied(self, value: Json, made: Document) -> Json:
        if isinstance(value, dict):
            return {key: self._copied(each, made) for key, each in value.items()}
        if not isinstance(value, list):
            return value
        items = [self._copied(each, made) for each in value]
        made._places_of(items)[:] = self._places_of(value)
        return items

    def _filled(self) -> set[str]:
        return {each[7:] for each in self._touched if each.startswith("filled ")}

    def _delete(self, parent: Json, step: str | int) -> None:
        self._held.append(parent[step])
        if isinstance(parent, list):
            del self._places_of(parent)[int(step)]
        del parent[step]

    def _places_of(self, items: list[Json]) -> list[int]:
        self._held.append(items)
        return self._places.setdefault(id(items), list(range(len(items))))


def collect(document: Document, rule: Callable[[Json], object], faults: list[Fault]) -> bool:
    """Apply the check ``rule`` until it passes; append a fault for each value that it refuses.

    Removes the refused values from ``document``.  Returns False if the check cannot be made to
    pass.
    """
    for _ in range(_MOST):
        try:
            rule(document.config)
        except ConfigError as error:
            where = document.original(error.where)
            if not (document.has_changed(where) or document.emptied(error.where)):
                message = error.message.removeprefix(f"{error.where}: ")
                faults.append(Fault(where, message, error.hint))
            if not document.remove(error.where):
                return False
        else:
            return True
    return False


def _child(value: Json, step: str | int) -> Json:
    return value[step] if _has(value, step) else None


def _has(value: Json, step: str | int) -> bool:
    if isinstance(step, int):
        return isinstance(value, list) and step < len(value)
    return isinstance(value, dict) and step in value
