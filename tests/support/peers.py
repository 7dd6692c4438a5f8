"""Other runtimes: marks for tests that one is known not to pass, and whether it works here."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.support import rootfs
from tests.support.bundle import Bundle
from tests.support.runtime import execute


def deviates(**reasons: str) -> pytest.MarkDecorator:
    """The named runtimes do otherwise, with the reason: ``@deviates(runc="...")``.

    The specification's reading is what the test states; ociruntime has to pass.
    """
    return pytest.mark.deviates(**reasons)


def judge_by(*kinds: str) -> pytest.MarkDecorator:
    """Only these runtimes have what is tested (a command of their own)."""
    return pytest.mark.judge_by(*kinds)


def program(name: str) -> Path:
    """Where the distribution has it; relative if it is not installed."""
    return Path(shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") or name)


@cache
def refusal(name: str) -> str:
    """Why the runtime runs no container here, in its own words; empty if it runs one."""
    path = program(name)
    if not path.is_absolute():
        return f"{name} is not installed"
    with tempfile.TemporaryDirectory(prefix=f"ociruntime-{name}-", dir="/var/tmp") as place:
        bundle = Bundle(Path(place, "bundle"), ("true",))
        rootfs.build(bundle.path / "rootfs", {"bin/busybox": rootfs.BUSYBOX})
        bundle.save()
        words = ("run", f"--bundle={bundle.path}", Path(place).name)
        # Not /dev/null: crun changes the owner of its standard streams.
        with tempfile.TemporaryFile() as nothing:
            done = execute([str(path), f"--root={place}/state", *words], stdin=nothing)
    if done.status == 0:
        return ""
    return f"{name} runs no container here: {' '.join(done.err.split()) or done.status}"
