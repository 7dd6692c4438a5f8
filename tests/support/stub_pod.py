"""Pods without containers: the same phases and locks, with only a few files.

    stub_pod.py DIRECTORY prepare                  prints the UUID
    stub_pod.py DIRECTORY run [CODE]               prints the UUID, exits with standard input
    stub_pod.py DIRECTORY run-prepared UUID [CODE] the same
    stub_pod.py DIRECTORY exited COUNT             prints the UUIDs of that many exited pods

Tests of states need hundreds of pods, and no containers.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Appended: an installed package keeps its place before the sources.
    sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from datetime import UTC, datetime

from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.fault_injection import fault
from ociruntime.pods.store import manifest_file, phases
from ociruntime.pods.store.phases import Pod

APP = "stub"
IMAGE = "sha256:" + "5" * 64


def fill(pod: Pod) -> None:
    """Write the files of a prepared pod."""
    place = Path(pod.path())
    app = place / "apps" / APP
    app.mkdir(parents=True)
    (app / "image.json").write_text(f'{{"id": "{IMAGE}", "name": "stub", "tree": "tree-{IMAGE}"}}')
    (app / "rootfs").mkdir()
    (app / "rootfs" / "link").symlink_to("/etc")
    fault("prepare.after-render")
    entry = {"name": APP, "image": {"id": IMAGE, "name": "stub"}, "app": {"exec": ["/stub"]}}
    manifest_file.write_manifest(
        pod, {"acVersion": "0.8.11", "acKind": "PodManifest", "apps": [entry], "annotations": []}
    )


def begin(pod: Pod) -> None:
    """Take the first step of a pod's monitor; print the UUID."""
    started = datetime.now(UTC).isoformat()
    manifest_file.write_object(pod, "monitor.json", {"started": started})
    print(pod.uuid, flush=True)


def end(pod: Pod, code: str) -> None:
    """Write the files of an exited pod."""
    Path(f"/proc/self/fd/{pod.fd}/apps/{APP}/status").write_text(code)


def end_with_input(pod: Pod, code: str) -> None:
    """Act as the monitor of a pod: run until standard input is closed."""
    begin(pod)
    sys.stdin.read()
    end(pod, code)


def run_at_once(directory: str) -> None:
    with phases.new_pod(directory) as pod:
        fill(pod)
        phases.to_run(pod)
        begin(pod)
        end(pod, "0")


def main(directory: str, verb: str, *rest: str) -> int:
    try:
        if verb == "run-prepared":
            with phases.open_pod(directory, rest[0]) as pod:
                phases.to_run(pod)
                end_with_input(pod, rest[1] if len(rest) > 1 else "0")
            return 0
        if verb == "exited":
            for _ in range(int(rest[0])):
                run_at_once(directory)
            return 0
        with phases.new_pod(directory) as pod:
            fill(pod)
            if verb == "prepare":
                phases.to_prepared(pod)
                print(pod.uuid, flush=True)
            else:
                phases.to_run(pod)
                end_with_input(pod, rest[0] if rest else "0")
    except RuntimeFailure as failure:
        print(failure, file=sys.stderr)
        return 254
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
