"""Requests: options and JSON give the same values; invalid ones are refused by their name."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from ociruntime.base.errors import BadRequest, RuntimeFailure, UsageError
from ociruntime.commandline.options import Option
from ociruntime.pods.cli.run_pods import SANDBOX_OPTIONS, SANDBOX_RUN_OPTIONS
from ociruntime.pods.manifest.app_arguments import parse_pod_arguments, pod_request
from ociruntime.pods.manifest.app_options import (
    ADD_OPTIONS,
    APP_OPTIONS,
    PREPARE_OPTIONS,
    RUN_OPTIONS,
    SAVED_OPTIONS,
)
from ociruntime.pods.manifest.request import (
    AppRequest,
    PodRequest,
    SandboxRequest,
    document_of,
    from_document,
)

POD = (*PREPARE_OPTIONS, *RUN_OPTIONS)
APP = (*APP_OPTIONS, *ADD_OPTIONS)


def of_options(*words: str) -> PodRequest:
    return pod_request(parse_pod_arguments(list(words), POD, APP))


# Option -> its value in JSON.
APPS: tuple[tuple[str, Any], ...] = (
    ("--name=web", "web"),
    ("--exec=", ""),
    ("--working-dir=/srv", "/srv"),
    ("--supplementary-gids=3,4", [3, 4]),
    ("--memory=1.5M", 3 << 19),
    ("--cpu=1.5", 1500),
    ("--cpu=500m", 500),
    ("--cpu-shares=512", 512),
    ("--oom-score-adj=0", 0),
    ("--caps-retain=", []),
    ("--caps-remove=net_raw,CAP_KILL", ["CAP_NET_RAW", "CAP_KILL"]),
    (
        "--seccomp=mode=retain,errno=EPERM,read",
        {"mode": "retain", "errno": "EPERM", "set": ["read"]},
    ),
    ("--environment=A=1=2", {"A": "1=2"}),
    ("--mount=volume=v,target=/t,readOnly=1", [{"volume": "v", "target": "/t", "readOnly": True}]),
    (
        "--mnt-volume=name=v,kind=host,source=/s,target=/t",
        [{"name": "v", "kind": "host", "source": "/s", "target": "/t"}],
    ),
    (
        "--mnt-volume=name=v,kind=host,source=/s,target=/t,fill=true,propagation=slave",
        [
            {"name": "v", "kind": "host", "source": "/s", "target": "/t"}
            | {"fill": True, "propagation": "slave"}
        ],
    ),
    ("--readonly-rootfs", True),
    ("--stop-signal=quit", "quit"),
    ("--ulimit=nofile=1024:-1", [{"name": "nofile", "soft": 1024, "hard": -1}]),
    ("--memory-swap=-1", -1),
    ("--memory-swap=2M", 2 << 20),
    ("--memory-reservation=1M", 1 << 20),
    ("--cpu-quota=5000", 5000),
    ("--cpu-period=10000", 10000),
    ("--cpuset-cpus=0-1,3", "0-1,3"),
    ("--cpuset-mems=0", "0"),
    ("--device=/dev/null", [{"source": "/dev/null", "target": "/dev/null", "access": "rwm"}]),
    ("--device=/dev/null:r", [{"source": "/dev/null", "target": "/dev/null", "access": "r"}]),
    ("--device=/dev/a:/dev/b:rw", [{"source": "/dev/a", "target": "/dev/b", "access": "rw"}]),
    ("--privileged", True),
    ("--ulimit=core=0", [{"name": "core", "soft": 0, "hard": 0}]),
    ("--tmpfs=/run:size=1m,exec", [{"target": "/run", "options": ["size=1m", "exec"]}]),
    ("--stdin=tty", "tty"),
)
PODS: tuple[tuple[str, Any], ...] = (
    ("--port=80/tcp:[::1]:8080", [{"name": "80-tcp", "hostPort": 8080, "hostIP": "::1"}]),
    (
        "--volume=v,kind=empty,mode=0700,uid=7",
        [{"name": "v", "kind": "empty", "mode": "0700", "uid": 7}],
    ),
    ("--net=lan:IP=10.0.0.9,other", ["lan:IP=10.0.0.9", "other"]),
    ("--dns=9.9.9.9,1.1.1.1", ["9.9.9.9", "1.1.1.1"]),
    ("--shm-size=1M", 1 << 20),
    ("--hostname=web.lan", "web.lan"),
    ("--hostname=my_host", "my_host"),
    ("--set-env=A=", {"A": ""}),
    ("--pid=parent", "parent"),
    ("--uts=parent", "parent"),
    ("--domainname=example.org", "example.org"),
    ("--sysctl=net.core.somaxconn=99", {"net.core.somaxconn": "99"}),
)


def field_of(option: str) -> str:
    return option[2:].partition("=")[0].replace("-", "_")


@pytest.mark.parametrize(("option", "value"), APPS)
def test_of_an_app(option: str, value: object) -> None:
    (app,) = of_options("image", option).apps
    document = {"image": "image", field_of(option): value}
    assert document_of(app) == document
    assert document_of(from_document(AppRequest, json.loads(json.dumps(document)))) == document
    assert app.given(field_of(option))


@pytest.mark.parametrize(("option", "value"), PODS)
def test_of_a_pod(option: str, value: object) -> None:
    document = {field_of(option): value}
    assert document_of(of_options(option, "image")) == document
    assert document_of(from_document(PodRequest, json.loads(json.dumps(document)))) == document


def test_defaults_are_not_written() -> None:
    assert document_of(PodRequest()) == document_of(of_options("--ipc=auto")) == {}
    assert from_document(SandboxRequest, {}) == SandboxRequest(is_document=True)


# Member, wrong value, where the error is.
WRONG: tuple[tuple[str, Any, str], ...] = (
    ("memory", "1G", "memory: "),
    ("memory", True, "memory: "),
    ("memory", 4095, "memory: 4095 is too small"),
    ("memory", 1 << 63, "memory: 9223372036854775808 is not between"),
    ("cpu", 9, "cpu: 9 is not between 10 and 4096000"),
    ("cpu", 1.5, "cpu: "),
    ("pids", 0, "pids: 0 is not between 1 and 4194304"),
    ("name", "../x", 'name: invalid app name "../x"'),
    ("environment", {"A=B": ""}, 'environment: "A=B"'),
    ("environment", {"A": "x\0"}, "environment.A: "),
    ("environment", {"A": "\ud800"}, "environment.A: "),
    ("arguments", [1], "arguments[0]: "),
    ("caps_retain", ["KILL"], 'caps_retain[0]: unknown capability "KILL"'),
    ("caps_retain", [["CAP_KILL"]], "caps_retain[0]: unknown capability"),
    ("seccomp", {"mode": "retain"}, "seccomp.set: required"),
    ("seccomp", {"mode": "retain", "set": []}, "seccomp: "),
    ("seccomp", {"mode": "retain", "set": ["x"], "errno": "E"}, "seccomp.errno: unknown errno"),
    ("mount", [{"volume": "v", "target": "/."}], "mount[0].target: "),
    ("mount", [{"volume": "../v", "target": "/x"}], "mount[0].volume: invalid volume name"),
    ("mnt_volume", ["v"], "mnt_volume[0]: "),
    ("mnt_volume", [{"kind": []}], "mnt_volume[0].kind: unknown value"),
    ("mnt_volume", [{"name": "v", "kind": "empty"}], "mnt_volume[0].target: required"),
    (
        "mnt_volume",
        [{"name": "v", "kind": "empty", "mode": "8", "target": "/t"}],
        "mnt_volume[0].mode: ",
    ),
    (
        "mnt_volume",
        [{"name": "v", "kind": "empty", "uid": -1, "target": "/t"}],
        "mnt_volume[0].uid: ",
    ),
    (
        "mnt_volume",
        [{"name": "v", "kind": "empty", "target": "/t", "fill": True}],
        "mnt_volume[0].fill: unknown member",
    ),
    (
        "mnt_volume",
        [{"name": "v", "kind": "host", "source": "/", "target": "/t", "propagation": "shared"}],
        "mnt_volume[0].propagation: unknown value",
    ),
    ("stop_signal", "SIGNOTHING", "stop_signal: "),
    ("ulimit", [{"name": "files", "soft": 1, "hard": 1}], 'ulimit[0].name: unknown value "files"'),
    ("ulimit", [{"name": "core", "soft": 1}], "ulimit[0].hard: required"),
    ("ulimit", [{"name": "core", "soft": 2, "hard": 1}], "ulimit[0]: core: "),
    ("ulimit", [{"name": "core", "soft": -1, "hard": 1}], "ulimit[0]: core: "),
    ("ulimit", [{"name": "core", "soft": 0, "hard": 1 << 64}], "ulimit[0].hard: 18446744073709"),
    ("memory_swap", -2, "memory_swap: -2 is too small"),
    ("memory_swap", True, "memory_swap: "),
    ("cpu_quota", 999, "cpu_quota: 999 is not between"),
    ("cpu_period", 1_000_001, "cpu_period: 1000001 is not between"),
    ("cpuset_cpus", "", "cpuset_cpus: "),
    ("cpuset_cpus", "2-1", "cpuset_cpus: invalid list"),
    ("cpuset_cpus", "0\n", "cpuset_cpus: invalid list"),
    ("cpuset_mems", "0,,1", "cpuset_mems: invalid list"),
    ("device", [{"source": "/dev/a", "target": "/dev/a"}], "device[0].access: required"),
    ("device", [{"source": "a", "target": "/a", "access": "r"}], 'device[0].source: "a" is not'),
    ("device", [{"source": "/a", "target": "/", "access": "r"}], "device[0].target: "),
    ("device", [{"source": "/a", "target": "/a", "access": "x"}], 'device[0]: invalid access "x"'),
    ("privileged", "yes", "privileged: "),
    ("tmpfs", [{"target": "run"}], 'tmpfs[0].target: "run"'),
    ("tmpfs", [{"target": "/./"}], "tmpfs[0].target: "),
    ("tmpfs", [{"target": "/t", "options": ["bind"]}], "tmpfs[0].options[0]: unknown tmpfs option"),
    ("tmpfs", [{"target": "/t", "options": ["huge=always"]}], "tmpfs[0].options[0]: unknown"),
    ("tmpfs", [{"target": "/t", "options": ["size"]}], "tmpfs[0].options[0]: unknown tmpfs option"),
    (
        "tmpfs",
        [{"target": "/t", "options": ["mode=9"]}],
        "tmpfs[0].options[0]: ",
    ),
    ("tmpfs", [{"target": "/t", "options": ["size=1m,dev"]}], "tmpfs[0].options[0]: invalid"),
    (
        "tmpfs",
        [{"target": "/t", "options": ["uid=-1"]}],
        "tmpfs[0].options[0]: ",
    ),
    ("stdin", "file", 'stdin: unknown value "file"'),
    ("is_document", True, "is_document: unknown member"),
    ("memroy", 1, "memroy: unknown member"),
)


@pytest.mark.parametrize(("member", "value", "message"), WRONG)
def test_wrong_members_of_an_app(member: str, value: object, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        from_document(AppRequest, {"image": "i", member: value})
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("apps", [], "apps: unknown member"),
        ("port", [{"name": "80-tcp", "hostPort": 0, "hostIP": ""}], "port[0].hostPort: 0 is not"),
        ("port", [{"name": "80-tcp", "hostPort": 1, "hostIP": "x"}], "port[0].hostIP: invalid IP"),
        ("port", [{"hostPort": 1}], "port[0].name: required"),
        ("net", ["a", "a"], 'net: network "a" is given twice'),
        ("net", "host", "net: "),
        ("dns", ["x"], 'dns: invalid name server "x"'),
        ("hostname", "-x", 'hostname: invalid hostname "-x"'),
        ("detach", "yes", "detach: "),
        ("pid", "host", 'pid: unknown value "host"'),
        ("domainname", "-x", 'domainname: invalid hostname "-x"'),
        ("sysctl", {"kernel.panic": "1"}, 'sysctl: "kernel.panic"'),
        ("sysctl", {"net.": "1"}, 'sysctl: "net."'),
        ("sysctl", {"net/core/somaxconn": "1"}, "sysctl: "),
        ("sysctl", {"net.ipv4.conf./.x": "1"}, "sysctl: "),
        ("sysctl", {"net...": "1"}, "sysctl: "),
        ("sysctl", {"kernel.hostname": "x"}, "sysctl: "),
        (
            "sysctl",
            {"net.core.somaxconn": "1\n2"},
            'sysctl: the value of "net.core.somaxconn"',
        ),
    ],
)
def test_wrong_members_of_a_pod(member: str, value: object, message: str) -> None:
    with pytest.raises(RuntimeFailure) as refused:
        from_document(SandboxRequest, {member: value})
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 1.5, 1e999, "", "x\0", [], [None], {}, {"": 1}]
)
@pytest.mark.parametrize("kind", [AppRequest, SandboxRequest])
def test_members_of_any_type(kind: type[AppRequest] | type[SandboxRequest], value: object) -> None:
    """Each is accepted, or refused by its name; nothing else is raised."""
    refusals: dict[str, str] = {}
    for one in fields(kind):
        try:
            from_document(
                kind, {"image": "i", one.name: value} if kind is AppRequest else {one.name: value}
            )
        except RuntimeFailure as refused:
            refusals[one.name] = str(refused)
    assert all(message.startswith(name) for name, message in refusals.items())


@pytest.mark.parametrize("document", [None, [], "x", 1])
def test_documents_that_are_no_objects(document: object) -> None:
    with pytest.raises(BadRequest, match="JSON object"):
        from_document(AppRequest, document)


def test_errors_name_the_option() -> None:
    for words, message in (
        (("image", "--oom-score-adj=1001"), "--oom-score-adj: 1001 is not between"),
        (
            ("--volume=v,kind=empty,uid=x", "image"),
            "--volume v,kind=empty,uid=x: uid: ",
        ),
        (
            ("image", "--mnt-volume=name=v,kind=empty"),
            "--mnt-volume name=v,kind=empty: target: req",
        ),
        (("--dns=x", "image"), '--dns: invalid name server "x"'),
        (("--hostname=a b", "image"), '--hostname: invalid hostname "a b"'),
    ):
        with pytest.raises(UsageError) as refused:
            of_options(*words)
        assert str(refused.value).startswith(message)


def test_every_option_is_a_field() -> None:
    def names(options: tuple[Option, ...]) -> set[str]:
        return {one.name.replace("-", "_") for one in options}

    sandbox = names((*SANDBOX_OPTIONS, *SANDBOX_RUN_OPTIONS, *SAVED_OPTIONS))
    assert names(APP) <= {one.name for one in fields(AppRequest)}
    assert names(POD) <= {one.name for one in fields(PodRequest)}
    assert sandbox - {"request"} <= {one.name for one in fields(SandboxRequest)}
