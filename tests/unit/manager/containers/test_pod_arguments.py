"""Specs of containers as arguments of ``ocipod``."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.manager.containers.pod_arguments import fetch_args, global_args, spec_args
from ociruntime.manager.containers.spec import check_spec
from ociruntime.pods.bundle.app_config import CAPABILITIES

ID = "ab" * 32
IMAGE = {"image": "busybox"}


def words(**spec: Any) -> tuple[list[str], list[str]]:  # noqa: ANN401 - JSON
    given = check_spec(IMAGE | spec)
    return spec_args(given, ID, "sha256:1", lambda name: f"/volumes/{name}")


def sandbox(**spec: Any) -> list[str]:  # noqa: ANN401 - JSON
    return words(**spec)[0]


def add(**spec: Any) -> list[str]:  # noqa: ANN401 - JSON
    found = words(**spec)[1]
    assert found[:2] == ["sha256:1", "--name=app"]
    return found[2:]


def test_the_least() -> None:
    assert sandbox() == [
        *("app", "sandbox", "--detach", "--keep", "--on-failure=keep"),
        *(f"--annotation=ocid/container={ID}", "--net=default", f"--hostname={ID[:12]}"),
    ]
    assert add() == []


def test_of_the_pod() -> None:
    ports = [
        {"host_port": 8080, "port": 80},
        {"host_ip": "::1", "host_port": 53, "port": 53, "protocol": "udp"},
    ]
    found = sandbox(network="lan", hostname="web", dns=["9.9.9.9", "1.1.1.1"], ports=ports)
    assert found[-6:] == [
        *("--net=lan", "--hostname=web", "--dns=9.9.9.9", "--dns=1.1.1.1"),
        *("--port=port-0:tcp:80::8080", "--port=port-1:udp:53:[::1]:53"),
    ]


def test_of_the_app() -> None:
    volumes = [
        {"source": "/srv", "target": "/data", "read_only": True},
        {"name": "db", "target": "/db"},
    ]
    found = add(
        env={"A": "1=2", "B": ""},
        working_dir="/srv",
        user="7:8",
        volumes=volumes,
        memory=1 << 20,
        cpus=1.5,
        pids_limit=9,
        stop_signal="quit",
        read_only=True,
        stdin=True,
    )
    assert found == [
        *("--environment=A=1=2", "--environment=B=", "--working-dir=/srv", "--memory=1048576"),
        *("--cpu=1.5", "--pids=9", "--stop-signal=quit", "--user=7", "--group=8"),
        *("--stdin=stream", "--readonly-rootfs"),
        "--mnt-volume=name=volume-0,kind=host,source=/srv,target=/data,readOnly=true",
        "--mnt-volume=name=volume-1,kind=host,source=/volumes/db,target=/db",
    ]
    assert add(tty=True, stdin=True) == ["--stdin=tty", "--stdout=tty", "--stderr=tty"]


@pytest.mark.parametrize(
    ("spec", "program"),
    [
        ({"command": ["a", "--", "b"]}, ["--", "a", "--", "b"]),
        ({"command": []}, []),
        ({"entrypoint": ["e", "1"], "command": ["2"]}, ["--exec=e", "--", "1", "2"]),
        ({"entrypoint": ["e"]}, ["--exec=e", "--"]),
        ({"entrypoint": [], "command": ["c", "1"]}, ["--exec=c", "--", "1"]),
        ({"image": None, "rootfs": "/r", "command": ["/c", "/"]}, ["--exec=/c", "--", "/"]),
    ],
)
def test_programs(spec: dict[str, Any], program: list[str]) -> None:
    assert add(**spec) == program


def retained(**spec: Any) -> set[str]:  # noqa: ANN401 - JSON
    (word,) = add(**spec)
    return set(word.removeprefix("--caps-retain=").split(",")) - {""}


def test_capabilities() -> None:
    usual = set(CAPABILITIES)
    assert retained(cap_add=["sys_admin"]) == usual | {"CAP_SYS_ADMIN"}
    assert retained(cap_drop=["CAP_KILL"]) == usual - {"CAP_KILL"}
    assert retained(cap_drop=["ALL"]) == set()
    assert retained(cap_drop=["ALL"], cap_add=["chown"]) == {"CAP_CHOWN"}
    assert retained(cap_add=["ALL"], cap_drop=["KILL"]) > usual - {"CAP_KILL"}


def test_fetching() -> None:
    assert fetch_args(IMAGE) == ["fetch", "--full", "--pull-policy=new", "busybox"]
    assert fetch_args(IMAGE | {"pull_policy": "always"})[2] == "--pull-policy=update"
    assert fetch_args({"rootfs": "/r"}) == ["fetch", "--full", "--pull-policy=update", "dir:/r"]
    both = ["--insecure-options=image,tls"]
    assert global_args({"insecure": ["tls"]}, ("image",), ("http", "tls")) == both
    # Allowed by the daemon that made the container, and not by this one.
    assert global_args({"insecure": ["tls"]}, ("image",)) == ["--insecure-options=image"]
    assert global_args({}) == []
