"""Any argument list is either parsed or refused with a message."""

from __future__ import annotations

import re
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as some

from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.paths import clean
from ociruntime.commandline.sizes import milli_cpus
from ociruntime.pods.manifest import isolators, ports, volumes
from ociruntime.pods.manifest.app_arguments import PodArguments, parse_pod_arguments, pod_request
from ociruntime.pods.manifest.app_names import is_name, name_of_image
from ociruntime.pods.manifest.app_options import APP_OPTIONS, PREPARE_OPTIONS, RUN_OPTIONS
from ociruntime.pods.manifest.build_manifest import build
from ociruntime.pods.manifest.environment import parse_file

ID = "sha256:" + "2" * 64
OPTIONS = (*PREPARE_OPTIONS, *RUN_OPTIONS, *APP_OPTIONS)
VALUES = some.sampled_from(
    """
    1 0 -1 64M 1.5 500m a b volume=a,target=/x a,kind=empty a,kind=host,source=/ A=1 A= =1 true
    false mode=retain,read CAP_KILL net_raw /bin/sh 80-tcp:80 80/tcp:127.0.0.1:80 null tty log
    """.split()
)
WORDS = some.one_of(
    some.sampled_from(["image", "other", "--", "---", "x"]),
    some.builds(lambda option: f"--{option.name}", some.sampled_from(OPTIONS)),
    some.builds(lambda option, v: f"--{option.name}={v}", some.sampled_from(OPTIONS), VALUES),
    some.text(max_size=6),
)


CONFIG = {"config": {"Cmd": ["sh"], "Volumes": {"/data": {}}, "ExposedPorts": {"80/tcp": {}}}}


class Image:
    id = ID
    name = "image"
    config = CONFIG


def read(words: list[str]) -> PodArguments | None:
    try:
        return parse_pod_arguments(words, (*PREPARE_OPTIONS, *RUN_OPTIONS), APP_OPTIONS)
    except RuntimeFailure:
        return None


@settings(deadline=None)
@given(some.lists(WORDS, max_size=12))
def test_command_lines(words: list[str]) -> None:
    said = read(words)
    if said is None or not said.apps:
        return
    try:
        manifest = build(pod_request(said), [Image()] * len(said.apps), {}, {}).manifest
    except RuntimeFailure:
        return
    names = [entry["name"] for entry in manifest["apps"]]
    assert len(set(names)) == len(names) == len(said.apps)
    known = [volume["name"] for volume in manifest["volumes"]]
    assert len(set(known)) == len(known)
    for entry in manifest["apps"]:
        assert is_name(entry["name"])
        places = [mount["path"] for mount in entry["mounts"]]
        assert len(set(places)) == len(places)
        assert {mount["volume"] for mount in entry["mounts"]} <= set(known)
        isolators.check(entry["app"]["isolators"], entry["name"])


@given(some.text(max_size=30))
def test_single_values(text: str) -> None:
    for parse in (volumes.volume, volumes.mount, ports.port, isolators.capability):
        with suppress(RuntimeFailure):
            parse(text)
    for measure in (isolators.byte_count, milli_cpus):
        with suppress(RuntimeFailure):
            assert measure(text, "it") >= 0
    assert re.fullmatch(r"([a-z0-9]+(-[a-z0-9]+)*)?", name_of_image(text))
    assert re.fullmatch(r"/|(/[^/]+)+", clean(text), re.DOTALL)


@given(some.text(alphabet="AB=#; \n\t\0", max_size=30))
def test_files_of_variables(text: str) -> None:
    with suppress(RuntimeFailure):
        found = parse_file(text, "file")
        assert all(name and "=" not in name and "\n" not in value for name, value in found.items())
