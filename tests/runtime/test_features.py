"""``features``, ``--version`` and ``--help``: the first calls of engines and users."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.criu import working_criu
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime


@deviates(crun="1.8 has none")
def test_features(runtime: Runtime) -> None:
    """FEAT: JSON on stdout, nothing on stderr (CRI-O reads both together)."""
    result = runtime("features").ok()
    assert result.err == ""
    features = json.loads(result.out)
    assert features["ociVersionMin"] == "1.0.0"
    assert re.fullmatch(r"1\.\d+\.\d+(-\S+)?", features["ociVersionMax"])
    assert "createRuntime" in features["hooks"]
    assert {"rbind", "ro", "nosuid"} <= set(features["mountOptions"])
    assert {"mount", "pid", "user"} <= set(features["linux"]["namespaces"])
    assert "CAP_KILL" in features["linux"]["capabilities"]
    assert features["linux"]["cgroup"]["v1"] is True
    assert features["linux"]["seccomp"]["enabled"] is True


@deviates(crun="1.8 has none", runc="lists options it then hands to the file system")
def test_listed_mount_options_work(
    runtime: Runtime, container: MakeContainer, bundle: MakeBundle
) -> None:
    """FEAT-truth: each listed option works on a bind mount or a tmpfs."""
    features = json.loads(runtime("features").ok().out)
    skipped = {"idmap", "ridmap", "bind", "rbind", "remount", "tmpcopyup", "acl", "mand"}
    skipped |= {"dirsync", "iversion", "lazytime", "symfollow"}
    for option in features["mountOptions"]:
        if option in skipped or (option.startswith("r") and option not in {"ro", "rw"}):
            continue
        one = bundle().mount("/scratch", "tmpfs", "t", option)
        made = container(one)
        made.create().silent()
        made.delete("--force").silent()


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_version(runtime: Runtime, flag: str) -> None:
    """go-runc, moby and podman parse these lines."""
    lines = runtime(flag).ok().out.splitlines()
    assert re.fullmatch(rf"{runtime.kind} version \S+", lines[0])
    assert any(line.startswith("commit: ") for line in lines)
    assert any(re.fullmatch(r"spec: 1\.\d+\.\d+\S*", line) for line in lines)


@pytest.mark.parametrize("words", [["--help"], ["create", "--help"], ["run", "--help"]])
def test_help(runtime: Runtime, words: list[str]) -> None:
    result = runtime(*words).ok()
    assert "bundle" in result.out or "create" in result.out
    assert result.err == ""


def test_unknown_command(runtime: Runtime) -> None:
    result = runtime("bogus")
    assert result.status != 0
    assert "bogus" in result.out + result.err


@pytest.mark.parametrize("verb", ["create", "start", "state", "kill", "delete", "run", "list"])
def test_unknown_option(runtime: Runtime, verb: str) -> None:
    result = runtime(verb, "--no-such-option")
    assert result.status != 0
    assert "no-such-option" in result.out + result.err


def test_option_without_its_value(runtime: Runtime) -> None:
    """Podman searches for one of these messages."""
    result = runtime("create", "--bundle")
    assert result.status != 0
    text = result.out + result.err
    assert "flag needs an argument" in text or "requires an argument" in text


def test_checkpoint_is_known(runtime: Runtime) -> None:
    """Engines call its help: exit status 0 means that it is supported."""
    if runtime.kind == "ociruntime":
        assert runtime("checkpoint", "--help").ok().out


def test_checkpoint_is_claimed_where_criu_works(runtime: Runtime) -> None:
    if runtime.kind == "ociruntime":
        features = runtime("--criu", "/no/such/criu", "features").ok().out
        assert '"org.opencontainers.runc.checkpoint.enabled": "false"' in features
        features = runtime("--criu", working_criu(), "features").ok().out
        assert '"org.opencontainers.runc.checkpoint.enabled": "true"' in features
