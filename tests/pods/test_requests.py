"""Requests in JSON on standard input, as the daemon passes them to ``ocipod``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ociruntime.pods.cli.run_pods import LARGEST_REQUEST
from tests.pods.sandbox import Sandbox
from tests.support.ocipod import Ocipod, PodResult
from tests.support.pod_images import shell


@pytest.fixture
def sandbox(ocipod: Ocipod, work: Path) -> Sandbox:
    return Sandbox(ocipod, work)


def ask(ocipod: Ocipod, data: bytes, *args: str) -> PodResult:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return ocipod(*args, "--request", stdin=file)


def entry(ocipod: Ocipod, uuid: str) -> dict[str, Any]:
    (found,) = ocipod("cat-manifest", uuid).ok().json["apps"]
    return dict(found)


def test_the_same_manifest_as_from_options(ocipod: Ocipod, sandbox: Sandbox) -> None:
    """It equals the options' manifest, except for the pod's own annotation."""
    pod = {
        "detach": True,
        "net": ["none"],
        "memory": 64 << 20,
        "annotation": {"a": "b"},
        "hostname": "box",
    }
    app = {
        "image": sandbox.image,
        "name": "app",
        "exec": "/bin/sh",
        "arguments": ["-c", "true"],
        "environment": {"A": "1=2"},
        "cpu": 500,
        "caps_retain": [],
        "oom_score_adj": 0,
        "mnt_volume": [{"name": "v", "kind": "empty", "uid": 7, "target": "/x/../v/"}],
    }
    one = (
        ask(ocipod, json.dumps({**pod, "apps": [app]}).encode(), "app", "sandbox").ok().out.strip()
    )
    options: tuple[str, ...] = (
        "--detach",
        "--net=none",
        "--memory=64M",
        "--annotation=a=b",
        "--hostname=box",
    )
    two = ocipod("app", "sandbox", *options).ok().out.strip()
    options = (
        *("--name=app", "--environment=A=1=2", "--cpu=0.5", "--caps-retain=", "--oom-score-adj=0"),
        *("--mnt-volume=name=v,kind=empty,uid=7,target=/x/../v/", *shell("true")),
    )
    ocipod("app", "add", two, sandbox.image, *options).ok()
    manifests = [ocipod("cat-manifest", uuid).ok().json for uuid in (one, two)]
    assert manifests[0] == manifests[1]
    assert entry(ocipod, one)["mounts"] == [{"volume": "v", "path": "/v"}]
    for uuid in (one, two):
        ocipod("stop", "--force", "--wait", uuid).ok()


REFUSED: tuple[tuple[bytes, str], ...] = (
    (b"", "--request: "),
    (b"{", "--request: "),
    (b"\xff", "--request: "),
    (b"{} {}", "--request: "),
    (b"[" * 100_000, "--request: "),
    (b'{"memory": ' + b"9" * 100_000 + b"}", "--request: "),
    (b'{"memory": ' + b"9" * 4000 + b"}", "memory: 9999"),
    (b"[]", "JSON object"),
    (b'{"uuid": "x"}', "uuid: unknown member"),
    (b'{"memory": "64M"}', "memory: "),
    (b'{"memory": NaN}', "memory: "),
    (b'{"hostname": "../x"}', 'hostname: invalid hostname "../x"'),
    (b'{"annotation": {"a": "\\u0000"}}', "annotation.a: "),
    (b" " * (LARGEST_REQUEST + 1), "--request: larger than 16 MiB"),
)


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=range(len(REFUSED)))
def test_pods_that_are_refused(ocipod: Ocipod, data: bytes, message: str) -> None:
    ask(ocipod, data, "app", "sandbox").failed(message)
    assert ocipod.pods() == []


def test_apps_that_are_refused(ocipod: Ocipod, sandbox: Sandbox) -> None:
    def asked(app: dict[str, Any]) -> PodResult:
        return ask(ocipod, json.dumps({"apps": [app]}).encode(), "app", "sandbox")

    asked({}).failed("image: required")
    ocipod("app", "add").failed("one image")
    ocipod("app", "add", sandbox.uuid).failed("one image")
    asked({"image": sandbox.image, "name": "../../x"}).failed('name: invalid app name "../../x"')
    both = {"image": sandbox.image, "caps_retain": [], "caps_remove": []}
    asked(both).failed("caps_retain and caps_remove are mutually exclusive")
    assert sandbox.states() == {}
    assert ocipod.pods() == [sandbox.uuid]


def test_options_beside_the_request(ocipod: Ocipod) -> None:
    ask(ocipod, b"{}", "app", "sandbox", "--net=none").failed("mutually exclusive")
    assert ocipod.pods() == []
