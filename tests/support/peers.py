"""Other runtimes: marks for tests that one is known to fail, and whether it works here."""

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
    """Mark known deviations of the named runtimes, with the reason: ``@deviates(runc="...")``.

    The test states the specification's reading, which ociruntime must meet.
    """
    return pytest.mark.deviates(**reasons)


def judge_by(*kinds: str) -> pytest.MarkDecorator:
    """Mark a test of a feature that only these runtimes have (such as a command)."""
    return pytest.mark.judge_by(*kinds)


def program(name: str) -> Path:
    """Return a runtime's path in the distribution; a bare name if it is not installed."""
    return Path(shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") or name)


@cache
def refusal(name: str) -> str:
    """Return why the runtime cannot run a container here, in its own words; "" if it can."""
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
