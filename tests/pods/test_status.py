"""The output of list and status, and waiting for a pod."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from tests.pods import stubs
from tests.support import processes, stub_pod
from tests.support.ocipod import Ocipod


def test_list(ocipod: Ocipod) -> None:
    assert ocipod("list").ok().out == "UUID\tAPP\tIMAGE NAME\tSTATE\tCREATED\tSTARTED\tNETWORKS\n"
    waiting = stubs.prepared(ocipod)
    busy, process = stubs.running(ocipod)
    rows = [line.split("\t") for line in ocipod("list", "--no-legend").ok().out.splitlines()]
    cells = {row[0]: [cell for cell in row[1:] if cell] for row in rows}
    assert cells[waiting[:8]][:3] == ["stub", "stub", "prepared"]
    assert cells[busy[:8]][:3] == ["stub", "stub", "running"]
    full = ocipod("list", "--full").ok().out
    assert "IMAGE ID" in full.splitlines()[0]
    assert f"{busy}\tstub" in full
    assert stub_pod.IMAGE in full
    found = {pod["name"]: pod for pod in ocipod("list", "--format=json").ok().json}
    assert found[busy]["state"] == "running"
    assert found[busy]["app_names"] == ["stub"]
    assert abs(found[busy]["created_at"] - time.time()) < 60
    assert abs(found[busy]["started_at"] - time.time()) < 60
    assert "started_at" not in found[waiting]
    stubs.finish(ocipod, process).ok()
    assert ocipod("list", "--format=json-pretty").ok().out.startswith("[\n  {\n")


def test_list_with_a_damaged_pod(ocipod: Ocipod) -> None:
    good, bad = stubs.prepared(ocipod), stubs.prepared(ocipod)
    (ocipod.path(bad) / "pod").write_text("{")
    (ocipod.directory / "pods" / "run" / "stray").mkdir(parents=True)
    done = ocipod("list", "--no-legend").ok()
    assert [line.split("\t")[0] for line in done.out.splitlines()] == [good[:8]]
    assert f"pod of pod {bad}: invalid JSON" in done.err
    assert '/stray" is not' in done.err
    (ocipod.directory / "pods" / "run" / "stray").rmdir()


def test_status_of_each_phase(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    assert ocipod.status(uuid)["exited"] == "false"
    _, process = stubs.running(ocipod, "run-prepared", uuid, "5")
    status = ocipod.status(uuid)
    assert (status["state"], status["exited"], "app-stub" in status) == ("running", "false", False)
    assert status["started"].startswith("20")
    stubs.finish(ocipod, process).ok()
    status = ocipod.status(uuid[:6])
    assert (status["state"], status["exited"], status["app-stub"]) == ("exited", "true", "5")
    found = ocipod("status", uuid, "--format=json").ok().json
    assert found["apps"][0]["exit_code"] == 5
    assert found["apps"][0]["state"] == "exited"
    ocipod("gc").ok()
    assert ocipod.status(uuid)["state"] == "exited garbage"
    ocipod("rm", uuid).ok()
    ocipod("status", uuid).failed("not found")


def test_a_uuid_from_a_file(ocipod: Ocipod, work: Path) -> None:
    uuid = stubs.prepared(ocipod)
    file = work / "uuid"
    file.write_text(uuid + "\n")
    assert "state=prepared" in ocipod("status", f"--uuid-file={file}").ok().out
    manifest = ocipod("cat-manifest", "--uuid-file", str(file)).ok()
    assert manifest.json["acKind"] == "PodManifest"
    assert manifest.out.count("\n") > 5
    assert ocipod("cat-manifest", uuid, "--pretty-print=false").ok().out.count("\n") == 1
    ocipod("status").failed("a pod is")
    ocipod("status", f"--uuid-file={work}/nothing").failed("no such file")
    ocipod("cat-manifest", "ffffffff").failed('"ffffffff"')
    ocipod("status", uuid, "--wait=soon").failed('invalid duration "soon" for --wait')


def test_waiting_for_the_end(ocipod: Ocipod) -> None:
    uuid, process = stubs.running(ocipod, "run", "4")
    began = time.monotonic()
    ocipod("status", uuid, "--wait=300ms").failed("is still running")
    assert time.monotonic() - began >= 0.3
    assert ocipod("status", uuid, "--wait=false").ok().out.startswith("state=running\n")
    waiting = ocipod.popen("status", "--wait", uuid, stdout=subprocess.PIPE)
    assert processes.until(lambda: _sleeps_in_flock(waiting.pid))
    stubs.finish(ocipod, process).ok()
    out, _ = waiting.communicate(timeout=60)
    assert "state=exited\n" in out.decode()
    assert "app-stub=4\n" in out.decode()
    assert ocipod("status", uuid, "--wait").ok().out.startswith("state=exited\n")


def _opened(pid: int) -> list[str]:
    """Return the paths of the process's open files."""
    try:
        return [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except FileNotFoundError:
        return []  # it has closed one meanwhile


def _sleeps_in_flock(pid: int) -> bool:
    with open("/proc/locks", encoding="ascii") as file:
        return any("->" in line and line.split()[5] == str(pid) for line in file)


def test_waiting_locks_no_prepared_pod(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    waiting = ocipod.popen("status", "--wait", uuid, stdout=subprocess.PIPE)
    time.sleep(0.3)
    assert not _sleeps_in_flock(waiting.pid)
    _, process = stubs.running(ocipod, "run-prepared", uuid)
    stubs.finish(ocipod, process).ok()
    out, _ = waiting.communicate(timeout=60)
    assert "state=exited\n" in out.decode()


def test_waiting_until_it_is_ready(ocipod: Ocipod) -> None:
    uuid, process = stubs.running(ocipod)
    ocipod("status", uuid, "--wait-ready=100ms").failed("is not ready")
    waiting = ocipod.popen("status", "--wait-ready", uuid, stdout=subprocess.PIPE)
    time.sleep(0.2)
    (ocipod.path(uuid) / "ready").symlink_to("ready")
    out, _ = waiting.communicate(timeout=60)
    assert "state=running\n" in out.decode()
    stubs.finish(ocipod, process).ok()
    ocipod("status", uuid, "--wait-ready").failed("is not ready")


def test_waiting_for_a_pod_that_is_removed(ocipod: Ocipod) -> None:
    uuid = stubs.prepared(ocipod)
    waiting = ocipod.popen("status", "--wait", uuid, "--format=json", stdout=subprocess.PIPE)
    path = str(ocipod.path(uuid))
    assert processes.until(lambda: path in _opened(waiting.pid))
    ocipod("rm", uuid).ok()
    out, _ = waiting.communicate(timeout=60)
    assert json.loads(out)["state"] in ("gone", "garbage", "deleting")
