"""What a cgroup v2 mount shows a container in the host's cgroup namespace."""

from __future__ import annotations

import pytest

from tests.unit.runtime.plan.compiling import compiled, config, facts, steps

OWN, WHOLE = "/sys/fs/cgroup/c1", "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("options", "bounding", "shown"),
    [
        (["ro"], [], WHOLE),
        (["rro"], [], WHOLE),
        (["rw"], ["CAP_SYS_ADMIN"], WHOLE),
        (["rw"], ["CAP_CHOWN"], OWN),
        ([], [], OWN),
    ],
)
def test_writable_only_for_whoever_could_mount_it(
    options: list[str], bounding: list[str], shown: str
) -> None:
    """Root in a container could otherwise freeze, kill and move processes of the host."""
    document = config(
        process={"capabilities": {"bounding": bounding}},
        mounts=[{"destination": WHOLE, "type": "cgroup", "source": "cgroup", "options": options}],
    )
    plan = compiled(document, facts(unified=WHOLE))
    assert [step["source"] for step in steps(plan, "bind")] == [shown]
