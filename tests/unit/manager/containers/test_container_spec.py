"""The request for a new container: every member, good and bad, and what ``ocipod`` reads."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ociruntime.base.errors import BadRequest
from ociruntime.manager.containers.container_spec import check_spec
from ociruntime.manager.containers.ocipod_requests import (
    fetch_args,
    global_args,
    pod_request,
    stored_args,
)
from ociruntime.pods.bundle.default_confinement import DEFAULT_CAPABILITIES
from ociruntime.pods.manifest.request import document_of, sandbox_from_document

WHOLE: dict[str, Any] = {
    "name": "web",
    "image": "docker.io/library/nginx:1",
    "command": ["a b", "", "---", "\n"],
    "entrypoint": ["/bin/sh"],
    "env": {"A": "1=2"},
    "working_dir": "/tmp",
    "user": "web",
    "group": "8",
    "volumes": [
        {"source": "/srv", "target": "/a", "read_only": True},
        {"name": "d", "target": "/b"},
    ],
    "ports": [{"host_ip": "::1", "host_port": 1, "port": 65535, "protocol": "udp"}],
    "network": "lan",
    "hostname": "web",
    "dns": ["9.9.9.9"],
    "memory": 1 << 26,
    "cpus": 0.5,
    "pids_limit": 10,
    "cap_add": ["net_admin"],
    "cap_drop": ["ALL"],
    "read_only": False,
    "tty": True,
    "stdin": True,
    "labels": {"a": ""},
    "restart_policy": {"name": "on-failure", "maximum": 3},
    "stop_signal": "SIGINT",
    "stop_timeout": 0.5,
    "auto_remove": False,
    "pull_policy": "never",
    "insecure": ["image", "tls"],
    "ulimits": [{"name": "nofile", "soft": 1, "hard": -1}],
    "sysctls": {"net.core.somaxconn": "9"},
    "tmpfs": [{"target": "/run", "options": ["size=1m"]}],
}


def test_everything_at_once() -> None:
    assert check_spec(WHOLE) == WHOLE


def test_null_is_as_good_as_nothing() -> None:
    assert check_spec({"image": "x", "rootfs": None, "name": None}) == {"image": "x"}


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"nmae": "x"}, "nmae: unknown member (known members: name, image,"),
    ({"image": None}, "image: "),
    ({"rootfs": "/srv"}, "image: "),
    (
        {"image": None, "rootfs": "/srv", "command": [], "entrypoint": None},
        "command: is required",
    ),
    ({"image": None, "rootfs": "srv"}, 'rootfs: "srv" is not'),
    ({"image": ""}, "image: must not"),
    ({"image": "a b"}, 'image: invalid image reference "a b"'),
    ({"image": "--x"}, 'image: invalid image reference "--x"'),
    ({"image": 1}, "image: must be"),
    ({"name": "-x"}, "name: "),
    ({"name": 1}, "name: "),
    ({"command": "a"}, "command: "),
    ({"command": ["a", 1]}, "command[1]: "),
    ({"command": ["a\0"]}, "command[0]: "),
    ({"env": []}, "env: "),
    ({"env": {"A=B": "1"}}, 'env: "A=B"'),
    ({"env": {"A": 1}}, "env.A: "),
    ({"working_dir": "tmp"}, 'working_dir: "tmp"'),
    ({"volumes": [1]}, "volumes[0]: "),
    ({"volumes": [{"source": "/x"}]}, "volumes[0].target: required"),
    (
        {"volumes": [{"source": "/", "name": "a", "target": "/x"}]},
        "volumes[0]: ",
    ),
    ({"volumes": [{"target": "/x", "anonymous": True}]}, "volumes[0].anonymous: unknown member"),
    ({"volumes": [{"source": "/", "target": "/x", "no_copy": True}]}, "volumes[0].no_copy: "),
    (
        {"volumes": [{"name": "a", "target": "/x", "propagation": "slave"}]},
        "requires source",
    ),
    (
        {"volumes": [{"source": "/", "target": "/x", "propagation": "rshared"}]},
        'volumes[0].propagation: "rshared"',
    ),
    ({"volumes": [{"source": "/", "target": "/x", "propagation": "x"}]}, "unknown value"),
    ({"volumes_from": ["web"]}, "volumes_from[0]: "),
    ({"volumes_from": [{"read_only": True}]}, "volumes_from[0].container: required"),
    (
        {"volumes": [{"source": "/x", "target": "/y", "mode": "z"}]},
        "volumes[0].mode: unknown member",
    ),
    ({"volumes": [{"name": "a", "target": "/."}]}, "volumes[0].target: "),
    (
        {"volumes": [{"name": "a", "target": "/a"}, {"source": "/no/such", "target": "/x"}]},
        'volumes[1].source: "/no/such"',
    ),
    ({"volumes": [{"name": "../x", "target": "/x"}]}, '"../x"'),
    ({"volumes": [{"name": "a", "target": "a"}]}, 'volumes[0].target: "a"'),
    ({"ports": [{"port": 80, "host_port": 65536}]}, "ports[0].host_port: 65536 is not between"),
    ({"ports": [{"port": True, "host_port": 1}]}, "ports[0].port: "),
    ({"ports": [{"host_port": 80}]}, "ports[0].port: required"),
    ({"ports": [{"host_port": 80, "port": 0}]}, "ports[0].port: 0 is not between 1 and 65535"),
    ({"ports": [{"host_port": 1.5, "port": 1}]}, "ports[0].host_port: "),
    ({"ports": [{"host_port": 1, "port": 1, "protocol": "x"}]}, 'protocol: unknown value "x"'),
    (
        {"ports": [{"host_port": 1, "port": 1}], "network": "none"},
        'ports: network "none" cannot forward',
    ),
    (
        {"ports": [{"host_port": 1, "port": 1}], "network": "host"},
        'ports: network "host" cannot forward',
    ),
    ({"memory": "1G"}, "memory: "),
    ({"memory": True}, "memory: "),
    ({"memory": 1}, "memory: 1 is too small"),
    ({"cpus": 0.009}, "cpus: 0.009 is not between 0.01 and 4096"),
    ({"env": {"A": "\ud800"}}, "env.A: "),
    ({"hostname": "a b"}, 'hostname: invalid hostname "a b"'),
    ({"dns": ["9.9.9.9", "nine"]}, 'dns: invalid name server "nine"'),
    ({"ports": [{"host_ip": "x", "host_port": 1, "port": 1}]}, "ports[0].host_ip: invalid IP"),
    ({"cpus": "1"}, "cpus: "),
    ({"cap_add": ["CAP_FLY"]}, 'cap_add[0]: unknown capability "CAP_FLY"'),
    ({"read_only": "yes"}, "read_only: "),
    ({"labels": ["a"]}, "labels: "),
    ({"restart_policy": "always"}, "restart_policy: "),
    ({"restart_policy": {}}, "restart_policy.name: required"),
    ({"restart_policy": {"name": "often"}}, 'restart_policy.name: unknown value "often"'),
    (
        {"restart_policy": {"name": "always", "maximum": 3}},
        "restart_policy.maximum: ",
    ),
    ({"stop_timeout": -1}, "stop_timeout: -1 is not between"),
    ({"pull_policy": "new"}, 'pull_policy: unknown value "new"'),
    ({"stop_signal": "SIGNOTHING"}, "stop_signal: "),
    ({"insecure": ["x"]}, 'insecure[0]: unknown value "x"'),
    ({"pid": "container:web"}, 'pid: unknown value "container:web"'),
    ({"uts": "host", "hostname": "x"}, "hostname: "),
    ({"uts": "host", "domainname": "x"}, "domainname: "),
    (
        {"platform": "windows/amd64"},
        '"windows/amd64"',
    ),
    ({"platform": "--x"}, 'platform: invalid platform "--x"'),
    (
        {"image": None, "rootfs": "/srv", "platform": "linux/amd64"},
        "platform: cannot be combined",
    ),
    (
        {"volumes": [{"name": "a", "target": "/x"}], "tmpfs": [{"target": "/./x"}]},
        "tmpfs[0].target: a volume",
    ),
    ({"memory_swap": -1}, "memory_swap: requires"),
    ({"memory": 8192, "memory_swap": 4096}, "memory_swap: must not"),
    ({"cpus": 1, "cpu_quota": 5000}, "cpus: cannot be"),
    ({"cpuset_cpus": "all"}, 'nodes "all"'),
    (
        {"devices": [{"source": "/dev/no-such", "target": "/x", "access": "r"}]},
        'devices[0].source: use device "/dev/no-such": no such file or directory',
    ),
    (
        {"devices": [{"source": "/etc/passwd", "target": "/x", "access": "r"}]},
        'devices[0].source: use device "/etc/passwd"',
    ),
    ({"privileged": 1}, "privileged: "),
    ({"ulimits": [{"name": "nofile"}]}, "ulimits[0].soft: required"),
    (
        {"tmpfs": [{"target": "/x", "options": ["rbind"]}]},
        "tmpfs[0].options[0]: unknown tmpfs option",
    ),
    ({"sysctls": {"kernel.core_pattern": "|x"}}, 'sysctls: "kernel.core_pattern"'),
    (
        {"sysctls": {"net.core.somaxconn": "1"}, "network": "host"},
        'sysctls: cannot set "net.core.somaxconn"',
    ),
    (
        {"sysctls": {"kernel.shmmax": "1"}, "ipc": "host"},
        'sysctls: cannot set "kernel.shmmax"',
    ),
    (
        {"auto_remove": True, "restart_policy": {"name": "always"}},
        "auto_remove: ",
    ),
)


@pytest.mark.parametrize(("changes", "told"), WRONG)
def test_what_is_wrong_is_told_with_its_place(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_spec({"image": "x", "command": ["x"], **changes})
    assert told in str(caught.value)


def test_no_object_at_all() -> None:
    with pytest.raises(BadRequest, match="spec of"):
        check_spec([])


# --- translation ---

ID = "ab" * 32
IMAGE = {"image": "busybox"}


def requests(**spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ANN401 - JSON
    """Return the requests for the pod and its app; ``ocipod`` accepts them."""
    given = check_spec(IMAGE | spec)
    document = document_of(pod_request(given, ID, "sha256:1", lambda name: f"/volumes/{name}"))
    assert document_of(sandbox_from_document(document)) == document
    (app,) = document.pop("apps")
    return document, app


def sandbox(**spec: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    found = requests(**spec)[0]
    assert found.pop("prepare")
    assert found.pop("keep")
    assert found.pop("on_exit") == "halt"
    assert found.pop("annotation") == {"ocid/container": ID}
    return found


def add(**spec: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    found = requests(**spec)[1]
    assert (found.pop("image"), found.pop("name")) == ("sha256:1", "app")
    assert found["environment"].pop("HOSTNAME") == ID[:12]
    assert found.pop("docker_environment")
    return found if found["environment"] else found | {"environment": {}}


def test_the_least() -> None:
    assert sandbox() == {"net": ["default"], "hostname": ID[:12]}
    assert add() == {"environment": {}}


def test_names_on_networks() -> None:
    found = sandbox(network="a,b", name="web", network_aliases=["www", "web"])
    assert found["net_name"] == ["web", "abababababab", "www"]
    assert sandbox(network="a", name="not..a.host")["net_name"] == ["abababababab"]


def test_of_the_pod() -> None:
    ports = [
        {"host_port": 8080, "port": 80},
        {"host_ip": "::1", "host_port": 53, "port": 53, "protocol": "udp"},
    ]
    found = sandbox(network="lan", hostname="web", dns=["9.9.9.9", "1.1.1.1"], ports=ports)
    assert found == {
        "net": ["lan"],
        "net_name": ["abababababab"],
        "hostname": "web",
        "dns": ["9.9.9.9", "1.1.1.1"],
        "port": [
            {"name": "80-tcp", "hostPort": 8080, "hostIP": ""},
            {"name": "53-udp", "hostPort": 53, "hostIP": "::1"},
        ],
    }
    # Records of earlier versions have such texts: they were passed on as options of ``ocipod``.
    found = sandbox(network="a:IP=10.0.0.9,b", dns=["9.9.9.9,1.1.1.1"])
    assert (found["net"], found["dns"]) == (["a:IP=10.0.0.9", "b"], ["9.9.9.9", "1.1.1.1"])


def test_the_host_name_is_exported() -> None:
    assert requests(hostname="web")[1]["environment"] == {"HOSTNAME": "web"}
    own = requests(hostname="web", env={"HOSTNAME": "own"})[1]
    assert own["environment"] == {"HOSTNAME": "own"}
    shared = requests(network="host")
    assert shared[0]["hostname"] == os.uname().nodename
    assert shared[1]["environment"] == {"HOSTNAME": os.uname().nodename}


def test_of_the_app() -> None:
    volumes = [
        {"source": "/srv", "target": "/data, old", "read_only": True},
        {"name": "db", "target": "/db"},
        {"name": "web", "target": "/web", "no_copy": True},
        {"source": "/", "target": "/host", "propagation": "rslave"},
    ]
    found = add(
        env={"A": "1=2", "B": ""},
        working_dir="/srv",
        user="7:8",
        volumes=volumes,
        memory=1 << 20,
        cpus=1 / 3,
        pids_limit=9,
        stop_signal="quit",
        read_only=True,
        stdin=True,
    )
    own: dict[str, Any] = {"name": "volume-0", "kind": "host", "source": "/srv"}
    mounted = [
        own | {"target": "/data, old", "readOnly": True},
        own | {"name": "volume-1", "source": "/volumes/db", "target": "/db"},
        own | {"name": "volume-2", "source": "/volumes/web", "target": "/web"},
        own | {"name": "volume-3", "source": "/", "target": "/host", "propagation": "rslave"},
    ]
    assert found == {
        "environment": {"A": "1=2", "B": ""},
        "working_dir": "/srv",
        "memory": 1 << 20,
        "cpu": 333,
        "pids": 9,
        "stop_signal": "quit",
        "user": "7",
        "group": "8",
        "stdin": "stream",
        "readonly_rootfs": True,
        "mnt_volume": mounted,
    }
    # Only when the container is created.
    spec = IMAGE | {"volumes": volumes}
    pod = pod_request(spec, ID, "sha256:1", lambda name: f"/volumes/{name}", fill=True)
    assert [one.get("fill") for one in pod.apps[0].mnt_volume] == [None, True, None, None]
    terminal = {"stdin": "tty", "stdout": "tty", "stderr": "tty"}
    assert add(tty=True, stdin=True) == {"environment": {}, **terminal}


def test_namespaces_of_the_host() -> None:
    assert sandbox(pid="host", domainname="example.org") == {
        "net": ["default"],
        "hostname": ID[:12],
        "pid": "parent",
        "domainname": "example.org",
    }
    pod, app = requests(uts="host")
    assert (pod["uts"], "hostname" in pod) == ("parent", False)
    assert app["environment"] == {"HOSTNAME": os.uname().nodename}


def test_further_limits() -> None:
    limits = {
        "memory": 1 << 20,
        "memory_swap": -1,
        "memory_reservation": 4096,
        "cpu_quota": 5000,
        "cpu_period": 10000,
        "cpuset_cpus": "0-1",
        "cpuset_mems": "0",
    }
    assert add(**limits) == {"environment": {}, **limits}


def test_kernel_settings() -> None:
    limit = {"name": "core", "soft": 0, "hard": 0}
    tmpfs = {"target": "/run", "options": ["size=1m"]}
    assert add(ulimits=[limit], tmpfs=[tmpfs]) == {
        "environment": {},
        "ulimit": [limit],
        "tmpfs": [tmpfs],
    }
    assert sandbox(sysctls={"kernel.sem": "1 2 3 4"})["sysctl"] == {"kernel.sem": "1 2 3 4"}


@pytest.mark.parametrize(
    ("spec", "exec", "arguments"),
    [
        ({"command": ["a", "--", "---"]}, None, ["a", "--", "---"]),
        ({"command": []}, None, None),
        ({"entrypoint": ["e", "1"], "command": ["2"]}, "e", ["1", "2"]),
        ({"entrypoint": ["e"]}, "e", []),
        ({"entrypoint": [], "command": ["c", "1"]}, "c", ["1"]),
        ({"image": None, "rootfs": "/r", "command": ["/c", "/"]}, "/c", ["/"]),
    ],
)
def test_programs(spec: dict[str, Any], exec: str | None, arguments: list[str] | None) -> None:
    found = add(**spec)
    assert (found.get("exec"), found.get("arguments")) == (exec, arguments)


def retained(**spec: Any) -> set[str]:  # noqa: ANN401 - JSON
    return set(add(**spec)["caps_retain"])


def test_capabilities() -> None:
    usual = set(DEFAULT_CAPABILITIES)
    assert retained(cap_add=["sys_admin"]) == usual | {"CAP_SYS_ADMIN"}
    assert retained(cap_drop=["CAP_KILL"]) == usual - {"CAP_KILL"}
    assert retained(cap_drop=["ALL"]) == set()
    assert retained(cap_drop=["ALL"], cap_add=["chown"]) == {"CAP_CHOWN"}
    assert retained(cap_add=["ALL"], cap_drop=["KILL"]) > usual - {"CAP_KILL"}


def test_capabilities_of_the_privileged() -> None:
    assert add(privileged=True) == {"environment": {}, "privileged": True}
    assert "CAP_SYS_ADMIN" in retained(privileged=True, cap_drop=["KILL"])
    assert "CAP_KILL" not in retained(privileged=True, cap_drop=["KILL"])
    assert retained(privileged=True, cap_drop=["ALL"], cap_add=["chown"]) == {"CAP_CHOWN"}


def test_fetching() -> None:
    assert fetch_args(IMAGE) == ["fetch", "--format=json", "--pull-policy=new", "busybox"]
    assert fetch_args(IMAGE | {"pull_policy": "always"})[2] == "--pull-policy=update"
    assert fetch_args({"rootfs": "/r"}) == [
        "fetch",
        "--format=json",
        "--pull-policy=update",
        "dir:/r",
    ]
    chosen = fetch_args(IMAGE | {"platform": "linux/arm64"})
    assert chosen == [*fetch_args(IMAGE)[:3], "--platform=linux/arm64", "busybox"]
    assert stored_args(IMAGE | {"platform": "linux/arm64"})[3] == "--platform=linux/arm64"
    both = ["--insecure-options=image,tls"]
    assert global_args({"insecure": ["tls"]}, ("image",), ("http", "tls")) == both
    # Allowed by the daemon that made the container, and not by this one.
    assert global_args({"insecure": ["tls"]}, ("image",)) == ["--insecure-options=image"]
    assert global_args({}) == []
