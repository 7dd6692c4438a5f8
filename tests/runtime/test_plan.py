"""``plan``: shows what ``create`` would do, without doing it."""

from __future__ import annotations

import json

from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")


def test_text(runtime: Runtime, bundle: MakeBundle) -> None:
    """The leak check verifies that nothing was done."""
    one = bundle().mount("/scratch", "tmpfs", "t", "size=1m")
    one.save()
    text = runtime("plan", str(one.path)).ok().out
    for words in ("mount", "/scratch", "pivot_root", "sleep", str(one.path)):
        assert words in text, text


def test_json(runtime: Runtime, bundle: MakeBundle) -> None:
    one = bundle()
    one.save()
    document = json.loads(runtime("plan", "--format", "json", str(one.path)).ok().out)
    assert "pivot_root" in json.dumps(document)


def test_bundle_defaults_to_the_working_directory(runtime: Runtime, bundle: MakeBundle) -> None:
    one = bundle()
    one.save()
    here = runtime("plan", cwd=one.path).ok().out
    assert here == runtime("plan", str(one.path)).ok().out


def test_same_bundle_same_plan(runtime: Runtime, bundle: MakeBundle) -> None:
    one = bundle()
    one.save()
    texts = {runtime("plan", "--format=json", str(one.path)).ok().out for _ in range(3)}
    assert len(texts) == 1


def test_broken_bundle(runtime: Runtime, bundle: MakeBundle) -> None:
    one = bundle()
    one.config["mounts"][0]["destination"] = 5
    one.save()
    runtime("plan", str(one.path)).failed("mounts[0].destination")


def test_steps_name_their_settings(
    runtime: Runtime, container: MakeContainer, bundle: MakeBundle
) -> None:
    one = bundle()
    one.linux["sysctl"] = {"net.ipv4.ip_forward": "1"}
    one.save()
    text = runtime("plan", str(one.path)).ok().out
    for where in ("mounts[0]", "linux.sysctl", "process.cwd", "linux.maskedPaths[0]"):
        assert where in text, where
