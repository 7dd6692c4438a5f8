"""``linux.mountLabel``: which mounts get it, and how."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.plan.compiling import compiled, config, facts, steps

LABEL = "system_u:object_r:container_file_t:s0:c1,c2"
OWN = "system_u:object_r:tmp_t:s0:c3,c4"
CONTEXT = f"context={LABEL}"


def made(fstype: str, *options: str) -> dict[str, Any]:
    """The mount of one filesystem."""
    mount = {"destination": "/there", "type": fstype, "source": "x", "options": list(options)}
    if fstype == "proc":
        mount["destination"] = "/proc"
    document = config(mounts=[mount], linux={"mountLabel": LABEL})
    step: dict[str, Any] = steps(compiled(document, facts(selinux=True)), "mount")[0]
    return step


@pytest.mark.parametrize(
    ("fstype", "options", "label"),
    [
        ("tmpfs", [CONTEXT], ""),
        ("devpts", [CONTEXT], ""),
        ("ext4", [CONTEXT], ""),
        ("mqueue", [], LABEL),
        ("proc", [], ""),
        ("sysfs", [], ""),
    ],
)
def test_new_filesystem(fstype: str, options: list[str], label: str) -> None:
    step = made(fstype)
    assert (step["options"], step["label"]) == (options, label)


@pytest.mark.parametrize("key", ["context", "defcontext", "fscontext"])
@pytest.mark.parametrize("fstype", ["tmpfs", "mqueue"])
def test_own_context_counts(fstype: str, key: str) -> None:
    """The quotes are mount(8)'s, for the commas."""
    step = made(fstype, f'{key}="{OWN}"')
    assert (step["options"], step["label"]) == ([f"{key}={OWN}"], "")


def test_context_of_the_root_beside_it() -> None:
    assert made("tmpfs", f"rootcontext={OWN.partition(':c3')[0]}")["options"][-1] == CONTEXT


def test_read_only_once_it_is_labelled() -> None:
    """On a read-only mount no attribute could be set."""
    assert made("mqueue", "ro")["attributes"] == 0


def test_masked_directory() -> None:
    document = config(linux={"mountLabel": LABEL, "maskedPaths": ["/secret"]})
    (step,) = steps(compiled(document, facts(selinux=True)), "mask")
    assert step["context"] == LABEL
