"""All faults of a bundle, found by the checks of ``create`` and ``start`` themselves."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ociruntime.base.errors import ConfigError, RuntimeFailure
from ociruntime.runtime.doctor.bundle_host import HOST_CHECKS
from ociruntime.runtime.doctor.collecting import Document, collect
from ociruntime.runtime.doctor.finding import Fault
from ociruntime.runtime.lifecycle.preparation import decide
from ociruntime.runtime.spec.bundle import Bundle, find_rootfs
from ociruntime.runtime.spec.check import check_shape
from ociruntime.runtime.spec.load import parse, read
from ociruntime.runtime.spec.validate import validate

if TYPE_CHECKING:
    from ociruntime.runtime.doctor.finding import Json
    from ociruntime.runtime.doctor.host import Host
    from ociruntime.runtime.lifecycle.options import Context, CreateOptions


def examine_bundle(context: Context, options: CreateOptions, host: Host) -> list[Fault]:
    """Return the faults of a bundle in the order found, then warnings; change nothing.

    Raises ConfigError if there is no bundle, or its config is not JSON.
    """
    file = options.config or f"{options.bundle}/config.json"
    document = Document(parse(read(file), file.rpartition("/")[2]))
    faults: list[Fault] = []
    warnings: list[str] = []
    if not collect(document, check_shape, faults):
        return faults
    whole = copy.deepcopy(document)  # for what is asked of the host: as much as can be read
    if not collect(document, check_config, faults):
        return faults
    rootfs = _rootfs(document, options.bundle, faults)
    for check in HOST_CHECKS:
        for fault in check(whole.config, options.bundle, rootfs, host):
            where = whole.original(fault.where)
            if not document.knows(where):
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
    return _distinct(faults) + [_warning(document, each) for each in warnings]


def check_config(config: Json) -> list[str]:
    """Run the checks of loading a bundle; return the warnings.  Raises ConfigError.

    The shape is checked, too, since the removed value may have been a required one.
    """
    check_shape(config)
    return validate(config)


def _rootfs(document: Document, bundle: str, faults: list[Fault]) -> str:
    """Return the real path of the root filesystem, "" if it does not exist."""
    try:
        return find_rootfs(document.config["root"]["path"], bundle)
    except ConfigError as error:
        if not document.knows(error.where):
            message = error.message.removeprefix(f"{error.where}: ")
            faults.append(Fault(error.where, message, error.hint))
        return ""


def _distinct(faults: list[Fault]) -> list[Fault]:
    """Return the first fault of each JSON path: the earliest check is the most basic one."""
    seen: dict[tuple[str, str], Fault] = {}
    for each in faults:
        seen.setdefault((each.where, "" if each.where else each.message), each)
    return list(seen.values())


def _warning(document: Document, text: str) -> Fault:
    where, separator, message = text.partition(": ")
    if not separator or " " in where:
        return Fault("", text, "", warning=True)
    return Fault(document.original(where), message, "", warning=True)
