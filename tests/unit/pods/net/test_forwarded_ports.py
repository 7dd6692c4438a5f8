"""A manifest's ports, joined with those of its apps."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.net.forwarded_ports import forwarded


def manifest(ports: list[dict[str, Any]], *apps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ports": ports, "apps": [{"name": "a", "app": {"ports": one}} for one in apps]}


def port(name: str, number: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"name": name, "protocol": "tcp", "port": number, "count": 1, **more}


def wish(name: str, host: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"name": name, "hostPort": host, "hostIP": "", **more}


def test_of_apps() -> None:
    made = forwarded(
        manifest(
            [wish("www", 8080), wish("dns", 53, hostIP="127.0.0.1")],
            [port("www", 80)],
            [port("dns", 5353, protocol="udp")],
        )
    )
    assert made == [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""},
        {"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "127.0.0.1"},
    ]


def test_one_port_of_several_apps() -> None:
    made = forwarded(manifest([wish("www", 8080)], [port("www", 80)], [port("www", 80)]))
    assert [one["containerPort"] for one in made] == [80]


def test_ranges() -> None:
    made = forwarded(manifest([wish("many", 9000)], [port("many", 100, count=3)]))
    assert [(one["hostPort"], one["containerPort"]) for one in made] == [
        (9000, 100),
        (9001, 101),
        (9002, 102),
    ]


def test_names_that_say_it_themselves() -> None:
    (made,) = forwarded(manifest([wish("53-udp", 5353)]))
    assert (made["containerPort"], made["protocol"]) == (53, "udp")
    (made,) = forwarded(manifest([wish("x", 1, podPort=2)]))
    assert (made["containerPort"], made["protocol"]) == (2, "tcp")


@pytest.mark.parametrize(
    ("ports", "apps", "text"),
    [
        ([wish("www", 80)], [], '"www"'),
        (
            [wish("a", 80)],
            [[port("a", 1)], [port("a", 2)]],
            "define different ports",
        ),
        ([wish("a", 80), wish("b", 80)], [[port("a", 1), port("b", 2)]], "80/tcp.* twice"),
        ([wish("a", 65535)], [[port("a", 1, count=2)]], 'forward port "a": '),
        ([wish("a", 0)], [[port("a", 1)]], 'forward port "a": '),
    ],
)
def test_refused(ports: list[dict[str, Any]], apps: list[list[Any]], text: str) -> None:
    with pytest.raises(PodError, match=text):
        forwarded(manifest(ports, *apps))


def test_nothing() -> None:
    assert forwarded({}) == []
