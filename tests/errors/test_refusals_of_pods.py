"""Whole messages of ``ocipod``: what a prepared pod with two apps refuses, and wrong requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox

pytestmark = pytest.mark.root

TWO_APPS = "pod {uuid} has 2 apps (choose one with --app: one, two)"
POD_REQUIRED = "a pod is required (pass a UUID or --uuid-file=FILE)"
# UUID (in a message {uuid}), IMAGE and FILE stand for the pod, an image and a file to write.
OF_THE_POD: dict[str, str] = {
    "export UUID FILE": "export pod {uuid}: the pod has several apps"
    " (choose one with --app: one, two)",
    "stop UUID": 'pod {uuid} is not running: its state is "prepared"',
    "app exec UUID true": TWO_APPS,
    "app status UUID": TWO_APPS,
    "attach UUID": TWO_APPS,
    "app rm UUID": (
        "pod {uuid} is immutable (only pods made with `ocipod app sandbox` can be changed)"
    ),
    "monitor UUID": "monitor: internal command, cannot be run by hand"
    " (use ocipod run, ocipod run-prepared or ocipod app sandbox)",
    "cat-manifest ffffffff": 'no pod with UUID prefix "ffffffff" found'
    " (list the pods with: ocipod list)",
    "status": POD_REQUIRED,
    "rm": POD_REQUIRED,
    "rm --uuid-file=FILE UUID": "a UUID and --uuid-file cannot be combined (pass only one of them)",
}
OF_A_REQUEST: dict[str, str] = {
    "run": "create a pod: at least one image is required"
    " (pass IMAGE [OPTION]... [-- ARGUMENT]..., or --pod-manifest FILE)",
    "run --runtime=ocinone IMAGE": 'the OCI runtime "ocinone" is not installed'
    " (choose another with --runtime)",
    "run --net=nowhere IMAGE": 'unknown network "nowhere"'
    " (known networks: none, host, default, default-restricted)",
    "run --net=none IMAGE IMAGE": 'add app "busybox": the pod already has an app of this name'
    " (choose another name with --name)",
    "run --net=none --port=80-tcp:80 IMAGE": "--net=none: port forwarding is not possible"
    " (omit --port)",
    "run --flavor=big IMAGE": 'unknown flavour "big" (supported: fly, kvm, oci)',
    "run IMAGE --user=nobody-here": 'look up user "nobody-here": not found in the image'
    " (use a number or a name in the image's /etc/passwd)",
    "run --oom-score-adj=5 IMAGE IMAGE": "--oom-score-adj must follow an image"
    " (it applies to the image before it)",
    "run IMAGE --mount=volume=v,target=/v": '--mount: unknown volume "v"'
    " (define it with --volume v,kind=...)",
    "login localhost:1": "login: cannot prompt: standard input is not a terminal"
    " (use --username and --password-stdin)",
}


def check(ocipod: Ocipod, refused: dict[str, str], places: dict[str, str]) -> None:
    for command, message in refused.items():
        result = ocipod(*(places.get(word, word) for word in command.split()))
        assert (result.status, result.out) == (254, "")
        assert result.err == f"ocipod: {message.format(uuid=places['UUID'])}\n"


def test_messages(work: Path) -> None:
    ocipod = Ocipod(work / "data")
    image = busybox(work)
    apps = (image, "--name=one", "--exec=/bin/true", image, "--name=two", "--exec=/bin/true")
    uuid = ocipod("prepare", "--quiet", *apps).ok().out.strip()
    places = {"UUID": uuid, "IMAGE": image, "FILE": f"{work}/file"}
    try:
        check(ocipod, OF_THE_POD, places)
        check(ocipod, OF_A_REQUEST, places)
        assert ocipod.pods() == [uuid]
    finally:
        ocipod("rm", uuid).ok()
