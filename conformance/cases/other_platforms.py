"""config.md, config-vm.md: objects in a config for platforms other than Linux."""

from __future__ import annotations

from typing import Any

from conformance.case import table
from conformance.context import Context

JUNK = {"anything": [1, {"layerFolders": 5}], "process": "none"}


def _runs_with(c: Context, name: str, value: Any) -> None:
    box = c.run(c.bundle("exit 7").change(**{name: value}))
    c.equal(box.exit_status, 7, f"exit status with {name}")


@table(
    ("empty", {}),
    ("junk", JUNK),
    ("kernel", {"kernel": {"path": "/vmlinuz"}}),
    ("hypervisor", {"hypervisor": {"path": "/vmm"}, "image": {"path": "/i", "format": "raw"}}),
    ids="VM-00",
)
def vm(c: Context, _name: str, value: Any) -> None:
    """A container runs normally if its config has a vm object ({0})."""
    _runs_with(c, "vm", value)


@table(("freebsd",), ("solaris",), ("windows",), ("zos",), ids="VM-01")
def empty_object(c: Context, name: str) -> None:
    """A container runs normally if its config has an empty {0} object."""
    _runs_with(c, name, {})


@table(("freebsd",), ("solaris",), ("windows",), ("zos",), ids="VM-01")
def junk_object(c: Context, name: str) -> None:
    """A container runs normally if its config has unknown members in {0}."""
    _runs_with(c, name, JUNK)
