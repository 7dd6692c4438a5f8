"""Whole messages that tell what to do: of requests to the manager, image manifests and options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from ociruntime.base.errors import (
    BadRequest,
    ImageError,
    PodError,
    RegistryError,
    RuntimeFailure,
    UsageError,
)
from ociruntime.commandline.durations import interval, period
from ociruntime.commandline.signal_names import signal_number
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.trust import cosign, openpgp
from ociruntime.manager.containers.container_spec import check_spec
from ociruntime.pods.manifest import isolators, user_manifest

Refused = dict[str, Any]

REQUESTS: tuple[tuple[Refused, str], ...] = (
    ({"rootfs": "/srv"}, "image: exactly one of image and rootfs is required"),
    (
        {"volumes": [{"source": "/no/such", "target": "/x"}]},
        (
            'volumes[0].source: "/no/such" not found on this host'
            " (create it first, or use a named volume)"
        ),
    ),
    (
        {"network": "none", "ports": [{"port": 1, "host_port": 1}]},
        'ports: network "none" cannot forward ports (omit the ports, or use another network)',
    ),
    (
        {"network": "host", "sysctls": {"net.core.somaxconn": "1"}},
        (
            'sysctls: cannot set "net.core.somaxconn":'
            " the container shares the network namespace with the host"
        ),
    ),
    (
        {"platform": "windows/amd64"},
        'platform: platform "windows/amd64" is not supported: only images for linux can run',
    ),
)

ISOLATORS: tuple[tuple[str, Refused, str], ...] = (
    (
        isolators.SYSCTL,
        {"vm.swappiness": "1"},
        (
            'os/linux/sysctl: "vm.swappiness" would change the host: it does not belong to a'
            " namespace (supported: net.*, fs.mqueue.*, kernel.msg*, kernel.sem, kernel.shm*)"
        ),
    ),
    (
        isolators.MEMORY,
        {"limit": "much"},
        'resource/memory: invalid size "much" (for example 512, 50M, 1.5GiB)',
    ),
    (isolators.CPU, {"limit": "0m"}, 'resource/cpu: "0m" is out of range (use 10m to 4096)'),
    (
        isolators.REMOVE_CAPS,
        {"set": ["fly"]},
        'unknown capability "fly" (use a name such as CAP_NET_RAW)',
    ),
)

UNITS = "(use numbers with units, such as 30m, 2s, 1h30m, 100ms)"
VALUES: tuple[tuple[Callable[[], object], str], ...] = (
    (
        lambda: signal_number("FOO"),
        'unknown signal "FOO" (use a name such as SIGTERM, or 0 to 64)',
    ),
    (lambda: signal_number("KIL"), 'unknown signal "KIL" (did you mean SIGKILL?)'),
    (
        lambda: interval("0s", "interval"),
        "--interval 0s: duration interval must be greater than 0",
    ),
    (lambda: interval("5", "interval"), f'invalid value "5" for flag -interval {UNITS}'),
    (lambda: period("-1s", "grace-period"), "--grace-period -1s: must not be negative"),
    (lambda: period("5", "grace-period"), f'invalid duration "5" for --grace-period {UNITS}'),
)

# Package that is missing, what needs it, and the error.
PACKAGES: tuple[tuple[str, Callable[[], object], type[RuntimeFailure], str], ...] = (
    (
        "requests",
        lambda: HttpClient(frozenset())._open_session(),
        RegistryError,
        "access to registries needs the Python package requests (pip install 'ociruntime[image]')",
    ),
    (
        "cryptography.hazmat.primitives.serialization",
        lambda: cosign.load_keys(("x.pub",)),
        ImageError,
        "cosign signatures need the Python package cryptography (pip install 'ociruntime[image]')",
    ),
    (
        "jsonschema",
        lambda: user_manifest.check({}, "file"),
        PodError,
        "--pod-manifest requires the Python package jsonschema (pip install ociruntime[check])",
    ),
)


@pytest.mark.parametrize(("changes", "message"), REQUESTS)
def test_requests(changes: Refused, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_spec({"image": "x", "command": ["x"], **changes})
    assert str(caught.value) == message


@pytest.mark.parametrize(("name", "value", "message"), ISOLATORS)
def test_isolators(name: str, value: Refused, message: str) -> None:
    with pytest.raises(PodError) as caught:
        isolators.check([{"name": name, "value": value}], "it")
    assert str(caught.value) == f"it: {message}"


@pytest.mark.parametrize(("call", "message"), VALUES, ids=[message for _, message in VALUES])
def test_values(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("package", "call", "kind", "message"), PACKAGES, ids=[package for package, *_ in PACKAGES]
)
def test_missing_packages(
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    call: Callable[[], object],
    kind: type[RuntimeFailure],
    message: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


def test_a_missing_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openpgp, "find_program", lambda name: "")
    with pytest.raises(ImageError) as caught:
        openpgp.verify(b"x", b"y", [openpgp.Key("0" * 40, (), b"")])
    message = "OpenPGP signatures need the program gpgv (install the package gpgv)"
    assert str(caught.value) == message
