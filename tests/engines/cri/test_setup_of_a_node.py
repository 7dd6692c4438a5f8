"""`ociruntime setup containerd` on a node with pods, from the command to the last pod."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.engines import host
from tests.engines.cri.client import Cri
from tests.engines.cri.pod import RUNNING, Pod
from tests.engines.daemon import PATH
from tests.support import isolation, processes
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")

OURS = re.compile(r'\[plugins\."[^"]+"\.containerd\.runtimes\.ociruntime(\.options)?\][^\[]*')
IMPORTS = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'


@pytest.fixture
def plain_node(node: Cri) -> Iterator[Cri]:
    """A node whose /etc/containerd/config.toml does not mention ociruntime."""
    if node.installed.version < (2, 0):
        pytest.skip("containerd 1.x loses settings by an import: tests/engines/test_setup.py")
    program = host.program("containerd")
    isolation.mount(
        str((node.installed.directory / "containerd").resolve()), program, "", isolation.MS_BIND
    )
    try:
        with host.covered("/etc/containerd") as etc:
            text = OURS.sub("", node.settings.read_text())
            node.settings = etc / "config.toml"
            node.settings.write_text(text.replace("version = 3\n", IMPORTS))
            node.restart()
            yield node
    finally:
        isolation.unmount(program)


def test_setup(plain_node: Cri, runtime: Runtime) -> None:
    """New pods can use the handler after a restart; existing pods are not affected."""
    node, env = plain_node, {"PATH": PATH, "HOME": "/"}
    before = Pod(node, "runc", name="before")
    one = before.run("one", "sleep", "1000")
    with pytest.raises(node.Error, match='no runtime for "ociruntime" is configured'):
        Pod(node, "ociruntime")
    node.restart(lambda: runtime("setup", "containerd", env=env).ok())
    pod = Pod(node, "ociruntime")
    two = pod.run("two", "sleep", "1000")
    undone = runtime("setup", "containerd", "--undo", env=env).ok()
    assert "RuntimeClass" in undone.out
    node.restart()
    # containerd runs nothing more in a pod without handler, but lets it go on, and removes it.
    assert before.execute(one, "echo", "out") == (0, "out\n", "")
    assert pod.status(two).state == RUNNING
    with pytest.raises(node.Error, match='no runtime for "ociruntime" is configured'):
        pod.execute(two, "echo", "out")
    pid = node.pid(two)
    for old in (before, pod):
        old.remove()
    assert not processes.alive(pid)
    with pytest.raises(node.Error, match='no runtime for "ociruntime" is configured'):
        Pod(node, "ociruntime")
