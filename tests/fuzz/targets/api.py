"""Bodies and queries of the manager's API: refused with the member's name, or fully translated.

The first byte of an input selects the request: ``c`` creates a container, ``u`` changes one, ``e``
executes a program, ``n`` creates a network, ``p`` creates a pod, ``q`` is a query string.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl

from ociruntime.base.checks import check_object
from ociruntime.base.errors import BadRequest, ConfigError
from ociruntime.base.json_text import parse
from ociruntime.manager.api import exec_route, images, logs, parse_requests
from ociruntime.manager.containers import (
    container_filters,
    container_records,
    container_spec,
    networks,
    ocipod_requests,
    volumes,
)
from ociruntime.manager.containers.list_filters import check_filters, passes
from ociruntime.manager.containers.pod_status import PodStatus
from ociruntime.manager.containers.restarts import should_restart
from ociruntime.pods.manifest.request import document_of, sandbox_from_document
from tests.fuzz.mutation import change_lines, json_mutator
from tests.fuzz.target import Target, refusals

_NAMES = tuple(
    sorted(
        {*container_spec._MEMBERS, *exec_route.MEMBERS, *networks.MEMBERS}
        | {*images._PULL, *images._LOGIN}
        | {"source", "target", "read_only", "port", "host_port", "protocol", "host_ip", "maximum",
           "name", "size", "mode", "soft", "hard", "path", "permissions", "apps", "fill", "options",
           "address", "volume", "from"}
    )
)  # fmt: skip
_mutate_json = json_mutator(_NAMES)
_LARGEST = 1 << 20


def _document(data: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return parse(data, "the body")
    except ConfigError as error:
        raise BadRequest("", error.message, error.hint) from None


def _create(document: object) -> None:
    checked = container_spec.check_spec(document)
    ocipod_requests.app_limits(checked)
    ocipod_requests.fetch_args(checked)
    container_spec.networks_of(checked)
    record = container_records.Record(
        "0" * 64, "n", "i", "", [], "2026-01-01T00:00:00Z", "", checked
    )
    again = container_records.from_text(container_records.to_text(record))
    assert again == record, "a record is not read as it was written"
    should_restart(record)
    answer = container_records.answer(record, PodStatus())
    json.dumps(answer)
    _filter(answer, container_filters.FILTERS)


def _filter(answer: dict[str, Any], table: Any) -> None:  # noqa: ANN401
    for name in table:
        for value in ("", "a", "running", "0", "true"):
            try:
                check_filters({name: [value]}, table)
            except BadRequest:
                continue
            if name not in ("before", "since", "ancestor", "reference"):
                passes(answer, {name: [value]}, table)


def _update(document: object) -> None:
    old = container_spec.check_spec({"image": "a", "memory": 1 << 30})
    changed = container_spec.changed_spec(old, document)
    ocipod_requests.app_limits(changed)


def _exec(document: object) -> None:
    checked = exec_route.check(document)
    arguments = exec_route.exec_args(checked, "/log", "u", "app")
    assert arguments[-len(checked["command"]) :] == checked["command"]
    assert not any("\0" in one for one in arguments)


def _network(document: object) -> None:
    body = check_object(document, networks.MEMBERS)
    if "name" in body:
        networks.check_name("name", body["name"])
    networks._given_subnets(body)


def _pod(document: object) -> None:
    request = sandbox_from_document(document)
    again = sandbox_from_document(json.loads(json.dumps(document_of(request))))
    assert document_of(again) == document_of(request)


def _query(data: bytes) -> None:
    query = dict(parse_qsl(data.decode("latin-1"), keep_blank_values=True))
    request: Any = mock.Mock(query=query)
    for ask in (
        lambda: logs.parse_query(query),
        lambda: parse_requests.moment(query, "since"),
        lambda: parse_requests.flag(query, "force"),
        lambda: check_filters(
            parse_requests.json_query(request, "filters"), container_filters.FILTERS
        ),
        lambda: check_filters(parse_requests.json_query(request, "filters"), networks._FILTERS),
        lambda: check_filters(parse_requests.json_query(request, "filters"), volumes._FILTERS),
    ):
        with refusals():
            ask()


_BODIES = {b"c": _create, b"u": _update, b"e": _exec, b"n": _network, b"p": _pod}


def run(data: bytes) -> None:
    handle = _BODIES.get(data[:1])
    if handle is not None:
        with refusals():
            document = _document(data[1:])
            with refusals():
                handle(document)
            for members in (images._PULL, images._LOGIN):
                with refusals():
                    check_object(document, members)
    elif data[:1] == b"q":
        _query(data[1:])


_SPEC = {
    "image": "busybox", "name": "web", "command": ["sh"], "env": {"A": "1"}, "user": "0",
    "working_dir": "/", "volumes": [{"source": "/tmp", "target": "/data", "read_only": True}],
    "ports": [{"host_port": 8080, "port": 80, "protocol": "tcp", "host_ip": "127.0.0.1"}],
    "network": "default", "hostname": "web", "dns": ["1.1.1.1"], "memory": 1 << 30, "cpus": 1.5,
    "ulimits": [{"name": "nofile", "soft": 1, "hard": 2}], "devices": [{"source": "/dev/null"}],
    "tmpfs": [{"target": "/t", "size": 1024}], "labels": {"a": "b"}, "stop_timeout": 1.5,
    "restart_policy": {"name": "on-failure", "maximum": 3}, "stop_signal": "SIGINT",
    "sysctls": {"net.ipv4.ip_forward": "1"}, "cpuset_cpus": "0-1", "platform": "linux/amd64",
    "group_add": [1], "cap_add": ["NET_RAW"], "hosts": [{"name": "h", "address": "1.2.3.4"}],
    "volumes_from": [{"container": "a"}], "shm_size": 65536,
}  # fmt: skip


def seeds() -> Iterator[bytes]:
    yield b"c" + json.dumps(_SPEC).encode()
    for name, value in _SPEC.items():
        yield b"c" + json.dumps({"image": "a", name: value}).encode()
    yield (
        b"c"
        + json.dumps({"rootfs": "/", "command": ["a"], "network": ["a", "b:IP=1.2.3.4"]}).encode()
    )
    yield b"u" + json.dumps({"memory": 1 << 30, "memory_swap": -1, "cpus": 2}).encode()
    yield b"u" + json.dumps({"restart_policy": {"name": "always"}}).encode()
    yield b'e{"command": ["a"], "tty": true, "env": ["A=1"], "user": "0", "size": [1, 2]}'
    yield b'n{"name": "a", "subnets": ["10.1.0.0/24", "fd00::/64"], "gateways": ["10.1.0.1"]}'
    yield b'p{"hostname": "h", "apps": [{"image": "a", "name": "b", "memory": 65536}]}'
    yield b"qsince=2026-01-01T00:00:00Z&tail=5&follow=1&stdout=1&timestamps=0"
    yield b'qfilters={"label":["a=b"],"status":["running"]}&force=1'


def mutate(data: bytes, rng: random.Random) -> bytes:
    kind = data[:1] if data else rng.choice((*_BODIES, b"q"))
    if kind == b"q":
        return kind + change_lines(data[1:], rng, rng.choice((b"&", b"=", b'"', b"-", b":")))
    return kind + bytes(_mutate_json(data[1:], rng))


TARGET = Target(
    run,
    (
        "base/checks.py",
        "manager/api/parse_requests.py",
        "manager/containers/container_spec.py",
        "manager/containers/container_records.py",
        "manager/containers/container_filters.py",
        "manager/containers/list_filters.py",
        "pods/manifest/request.py",
    ),
    seeds,
    mutate,
)
