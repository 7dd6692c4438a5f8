"""Limits and privileges of an app, from options and from a user's manifest."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.manifest import isolators

# Isolators that accept any value, or whose values a table checks with messages of its own.
SIZES = (*(isolators.MEMORY, isolators.MEMORY_SWAP, isolators.MEMORY_RESERVATION, isolators.CPU),)
FREE = {isolators.NO_NEW_PRIVILEGES, isolators.SYSCTL}


@pytest.mark.parametrize(
    ("name", "value", "start"),
    [
        (
            isolators.SYSCTL,
            {"vm.swappiness": "1"},
            'os/linux/sysctl: "vm.swappiness" ',
        ),
        (
            isolators.MEMORY,
            {"limit": "much"},
            'resource/memory: invalid size "much"',
        ),
        (isolators.CPU, {"limit": "0m"}, 'resource/cpu: "0m" '),
        (
            isolators.REMOVE_CAPS,
            {"set": ["fly"]},
            'unknown capability "fly"',
        ),
    ],
)
def test_a_manifest_with_a_value_that_cannot_be(name: str, value: object, start: str) -> None:
    with pytest.raises(PodError) as refused:
        isolators.check([{"name": name, "value": value}], "it")
    assert str(refused.value).startswith(f"it: {start}")


@pytest.mark.parametrize("value", [None, {}, [], "many", {"limit": []}, {"set": [1]}, 1e999])
@pytest.mark.parametrize("name", sorted(isolators.KNOWN - FREE))
def test_a_manifest_with_a_value_of_another_form(name: str, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(PodError) as refused:
        isolators.check([{"name": name, "value": value}], "it")
    if name == isolators.ULIMITS and value == {"set": [1]}:
        assert str(refused.value).startswith("it: ociruntime/ulimits[0]: ")
        return
    limit = name in SIZES and value == {"limit": []}
    cpus = name in (isolators.CPUSET_CPUS, isolators.CPUSET_MEMS) and value == "many"
    if not limit and not cpus:
        assert str(refused.value).startswith("it: ")
        assert f' "{name}" (for example ' in str(refused.value)


def test_kernel_parameters_belong_to_the_pod() -> None:
    wanted = [{"name": isolators.SYSCTL, "value": {"net.core.somaxconn": "1"}}]
    isolators.check_pod(wanted)
    with pytest.raises(PodError, match=r"app: .*os/linux/sysctl"):
        isolators.check_app(wanted, "app")


def test_a_manifest_with_both_of_two_that_exclude_each_other() -> None:
    both = [
        {"name": name, "value": {"set": ["CAP_KILL"]}}
        for name in (isolators.RETAIN_CAPS, isolators.REMOVE_CAPS)
    ]
    with pytest.raises(
        PodError, match=r"it: .*-retain-set and .*-remove-set are mutually exclusive"
    ):
        isolators.check(both, "it")


def test_suggested_values_are_accepted() -> None:
    """The values suggested by error messages are accepted."""
    import json

    for name, form in isolators._FORMS.items():
        isolators.check([{"name": name, "value": json.loads(form)}], "it")
