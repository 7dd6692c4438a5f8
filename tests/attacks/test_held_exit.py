"""A container whose init is held at exit by a tracer inside the container."""

from __future__ import annotations

from pathlib import Path

from tests.support import static_program
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")

SOURCE = Path(__file__).with_name("hold.c")


def test_delete_by_force(container: MakeContainer, bundle: MakeBundle, base: Path) -> None:
    one = bundle("/bin/hold")
    static_program.build(one.rootfs / "bin/hold", SOURCE)
    held = container(one).started()
    held.wait_output("held\n")
    held.delete("--force").silent()
