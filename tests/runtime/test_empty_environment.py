"""Called as podman calls it: no PATH, no HOME, any directory, streams closed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.peers import deviates
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.runtime import Runtime, execute


def test_whole_life(container: MakeContainer, bundle: MakeBundle, runtime: Runtime) -> None:
    one = container(bundle("echo", "ran"))
    one.create(env={}, cwd="/").silent()
    for words in (["start", one.id], ["state", one.id]):
        result = runtime(*words, env={}, cwd="/").ok()
    assert json.loads(result.out)["id"] == one.id
    one.wait()
    runtime("delete", one.id, env={}, cwd="/").silent()
    one.exists = False
    assert one.output == "ran\n"


def test_run(container: MakeContainer, bundle: MakeBundle) -> None:
    assert container(bundle("echo", "ran")).run(env={}).ok().out == "ran\n"


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
@deviates(runc="a Go program opens what it misses", crun="does what the caller asks")
def test_closed_streams(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, closed: str
) -> None:
    """A descriptor that the runtime opens must not become the container's stdin."""
    one = container(bundle("sleep", "100"))
    one.bundle.save()
    create = runtime.command(
        "create", "--bundle", str(one.bundle.path), "--pid-file", str(one.pid_file), one.id
    )
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *create], check=False)
    assert done.returncode == 0
    one.exists = True
    one.start().silent()
    for number in "012":
        target = Path(f"/proc/{one.pid}/fd/{number}")
        if target.is_symlink():
            assert not str(target.readlink()).startswith(str(one.bundle.path)), target
    one.delete("--force").silent()


def test_removed_working_directory(container: MakeContainer, runtime: Runtime, work: Path) -> None:
    one = container()
    one.bundle.save()
    gone = work / "gone"
    gone.mkdir()
    words = runtime.command("create", "--bundle", str(one.bundle.path), one.id)
    script = f'cd {gone}; rmdir {gone}; exec "$@"'
    execute(["sh", "-c", script, "sh", *words]).ok()
    one.exists = True
    assert one.status == "created"


def test_default_root(container: MakeContainer, runtime: Runtime) -> None:
    """Callers pass none in later calls; it is below /run and always the same."""
    one = container()
    one.bundle.save()
    path = str(runtime.path)
    execute([path, "create", "--bundle", str(one.bundle.path), one.id], env={}).ok()
    try:
        state = json.loads(execute([path, "state", one.id], env={}).ok().out)
        assert state["status"] == "created"
        assert Path("/run", runtime.kind, one.id).is_dir()
        result = execute([path, "state", one.id], env={"XDG_RUNTIME_DIR": "/run/other"})
        assert result.status == 0 or runtime.kind == "crun"
    finally:
        execute([path, "delete", "--force", one.id], env={}).silent()


def test_hostile_environment(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """The caller's PYTHON* and LD_* variables do not change what runs."""
    (work / "sitecustomize.py").write_text("raise SystemExit(99)\n")
    (work / "posix.py").write_text("raise SystemExit(98)\n")
    (work / "ociruntime").mkdir()
    (work / "ociruntime" / "__init__.py").write_text("raise SystemExit(97)\n")
    env = {
        "PYTHONPATH": str(work),
        "PYTHONHOME": str(work),
        "PYTHONSTARTUP": str(work / "posix.py"),
        "PYTHONINSPECT": "1",
        "PYTHONDEBUG": "1",
        "PYTHONVERBOSE": "1",
        "PYTHONPLATLIBDIR": "nowhere",
        "PYTHONWARNINGS": "error",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    one = container(bundle("echo", "ran"))
    assert one.run(env=env).ok().out == "ran\n"


def test_module_in_the_bundle_is_not_imported(container: MakeContainer, runtime: Runtime) -> None:
    """The working directory is the bundle, which may contain another user's files."""
    one = container()
    one.bundle.save()
    for name in ("posix.py", "json.py", "ociruntime.py", "encodings.py"):
        (one.bundle.path / name).write_text("raise SystemExit(99)\n")
    runtime("create", "--bundle", ".", one.id, cwd=one.bundle.path).ok()
    one.exists = True
    assert one.status == "created"


def test_relative_path_of_the_runtime(container: MakeContainer, runtime: Runtime) -> None:
    one = container()
    one.bundle.save()
    words = runtime.command("create", "--bundle", str(one.bundle.path), one.id)
    words[0] = f"./{runtime.path.name}"
    execute(words, cwd=runtime.path.parent, env={}).ok()
    one.exists = True
    assert one.status == "created"


def test_through_a_link(container: MakeContainer, runtime: Runtime, work: Path) -> None:
    """An administrator may put a link on the PATH."""
    link = work / runtime.path.name
    link.symlink_to(runtime.path)
    linked = Runtime(link, runtime.root)
    one = container()
    one.bundle.save()
    linked("create", "--bundle", str(one.bundle.path), one.id, env={}).ok()
    one.exists = True
    assert one.status == "created"


def test_is_one_regular_executable_file(runtime: Runtime) -> None:
    """Podman checks it with stat(2)."""
    path = runtime.path.resolve()
    assert path.is_file()
    assert os.access(path, os.X_OK)
    assert path.read_bytes()[:4] == b"\x7fELF" or path.read_bytes()[:3] == b"#!/"


@pytest.mark.parametrize("grammar", [
    ["--log-format=json", "state", "ID"],
    ["--log-format", "json", "state", "ID"],
    ["-log-format", "json", "state", "ID"],
    ["--systemd-cgroup", "state", "ID"],
    ["--systemd-cgroup=false", "state", "ID"],
    ["--rootless=true", "state", "ID"],
    ["state", "--", "ID"],
])  # fmt: skip
@deviates(crun="one dash is not two, booleans take no value")
def test_grammar_of_callers(container: MakeContainer, runtime: Runtime, grammar: list[str]) -> None:
    one = container().created()
    runtime(*[one.id if word == "ID" else word for word in grammar]).ok()
    assert processes.alive(one.pid)
    assert TAG in one.id


def test_hooks_get_nothing_of_the_interpreters(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """For example, the locale that Python sets if the caller has none."""
    one = bundle()
    out = one.path / "environ"
    one.hooks["createRuntime"] = [
        {"path": "/usr/bin/dd", "args": ["dd", "if=/proc/self/environ", f"of={out}"]}
    ]
    container(one).create(env={"PATH": "/usr/bin", "A": "1"}).ok()
    words = set(out.read_text().split("\0"))
    assert words & {"PATH=/usr/bin", "A=1"} == {"PATH=/usr/bin", "A=1"}
    assert not [word for word in words if word.startswith(("LC_", "PYTHON"))]
