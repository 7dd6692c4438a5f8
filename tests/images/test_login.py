"""``ocipod login`` and ``logout``."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support import images
from tests.support.ocipod import Ocipod
from tests.support.registry import Registry

ME = ("me", "secret:with colon")


def log_in(
    ocipod: Ocipod, host: str, password: str = ME[1], user: str = ME[0]
) -> subprocess.CompletedProcess[bytes]:
    command = ocipod.command("login", "-u", user, "--password-stdin", host)
    return subprocess.run(command, input=password.encode() + b"\n", capture_output=True, timeout=60)


@pytest.mark.parametrize("token", [False, True], ids=["basic", "token"])
def test_images_are_fetched_after_a_login(ocipod: Ocipod, work: Path, token: bool) -> None:
    with Registry(basic=ME, token=token) as registry:
        registry.push("team/web", "1", images.build([images.pack({"a": "1"})]))
        name = f"{registry.host}/team/web:1"
        ocipod("fetch", name).failed("40")
        done = log_in(ocipod, registry.host)
        assert done.returncode == 0, done.stderr
        path = work / "config/auth.json"
        assert done.stdout.decode().endswith(f"are in {path}\n")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ocipod("fetch", name).ok()
        ocipod("logout", registry.host).ok()
        assert json.loads(path.read_text()) == {"auths": {}}
        ocipod("logout", registry.host).failed("no credentials")


@pytest.mark.parametrize("token", [False, True], ids=["basic", "token"])
def test_wrong_passwords_are_not_kept(ocipod: Ocipod, work: Path, token: bool) -> None:
    with Registry(basic=ME, token=token) as registry:
        done = log_in(ocipod, registry.host, "wrong")
    assert done.returncode != 0
    assert b"401" in done.stderr
    assert b"wrong" not in done.stderr
    assert not (work / "config/auth.json").exists()


def test_other_credentials_are_kept(ocipod: Ocipod, work: Path) -> None:
    path = work / "config/auth.json"
    other = {"auth": "eDp5"}
    with Registry(basic=ME) as registry:
        auths = {"quay.io": other, f"https://{registry.host}/v2/": {"auth": "b2xkOm9sZA=="}}
        path.write_text(json.dumps({"auths": auths, "credHelpers": {"x": "y"}}))
        assert log_in(ocipod, registry.host).returncode == 0
        document = json.loads(path.read_text())
    assert document["credHelpers"] == {"x": "y"}
    assert set(document["auths"]) == {"quay.io", registry.host}
    assert document["auths"]["quay.io"] == other


def test_what_is_refused(ocipod: Ocipod, work: Path) -> None:
    ocipod("login", "localhost:1").failed("not a terminal")
    ocipod("login", "--password-stdin", "localhost:1").failed("--username")
    ocipod("login", "-u", "a", "-p", "b", "no/host").failed("invalid registry")
    ocipod("login", "-u", "a:b", "-p", "c", "localhost:1").failed("colon")
    (work / "config/auth.json").write_text('{"auths": []}')
    with Registry(basic=ME) as registry:
        done = log_in(ocipod, registry.host)
    assert b'"auths" must be a JSON object' in done.stderr
    assert (work / "config/auth.json").read_text() == '{"auths": []}'
