"""Log messages that programs parse: content, destination and format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

RFC3339_WITH_ZONE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def options(log: Path, form: str) -> tuple[str, ...]:
    return ("--log", str(log), "--log-format", form)


@deviates(crun="spreads it over several lines")
def test_json_error_is_one_line(runtime: Runtime, work: Path) -> None:
    """Podman decodes the whole file as one document, containerd takes the last object."""
    log = work / "log.json"
    result = runtime(*options(log, "json"), "state", "nope")
    assert result.status == 1
    text = log.read_text()
    assert text.count("\n") == 1
    entry = json.loads(text)
    assert entry["level"] == "error"
    assert "does not exist" in entry["msg"]
    assert RFC3339_WITH_ZONE.fullmatch(entry["time"])


@deviates(crun="writes the time before it")
def test_error_is_bare_on_stderr_when_the_log_is_a_file(runtime: Runtime, work: Path) -> None:
    result = runtime(*options(work / "log.json", "json"), "state", "nope")
    assert json.loads((work / "log.json").read_text())["msg"] == result.err.rstrip("\n")


def test_error_without_a_log_is_on_stderr(runtime: Runtime) -> None:
    result = runtime("state", "nope")
    assert result.out == ""
    assert result.err.count("\n") == 1


@deviates(crun="spreads it over several lines")
def test_json_error_on_stderr(runtime: Runtime) -> None:
    entry = json.loads(runtime("--log-format", "json", "state", "nope").err)
    assert entry["level"] == "error"


def test_text_error_in_a_file(runtime: Runtime, work: Path) -> None:
    runtime(*options(work / "log", "text"), "state", "nope")
    assert "does not exist" in (work / "log").read_text()


def test_log_is_appended(runtime: Runtime, work: Path) -> None:
    log = work / "log.json"
    log.write_text("before\n")
    runtime(*options(log, "json"), "state", "nope")
    assert log.read_text().startswith("before\n")


def test_unknown_format(runtime: Runtime) -> None:
    result = runtime("--log-format", "xml", "state", "nope")
    assert result.status == 1
    assert "xml" in result.err


def test_silence_when_all_is_well(container: MakeContainer, runtime: Runtime, work: Path) -> None:
    """Nothing on either stream or in the log, from create to delete."""
    log = work / "log.json"
    one = container()
    one.runtime = runtime.logging_to(log)
    one.started()
    one.state()
    one.kill("KILL").silent()
    one.wait()
    one.delete().silent()
    assert one.output == ""
    assert not log.exists() or log.read_text() == ""


def test_one_error_per_failing_create(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, work: Path
) -> None:
    """Even if it fails late, and after a warning."""
    log = work / "log.json"
    one = container(bundle("/no/such/program"))
    one.runtime = runtime.logging_to(log)
    result = one.create()
    assert result.status == 1
    entries = log.read_text().splitlines()
    if runtime.kind != "crun":
        assert len(entries) == 1
        assert json.loads(entries[0])["msg"] in result.err


def test_relative_log_is_relative_to_the_caller(runtime: Runtime, work: Path) -> None:
    runtime("--log", "here.log", "state", "nope", cwd=work)
    assert "does not exist" in (work / "here.log").read_text()


def test_log_in_a_missing_directory(runtime: Runtime, work: Path) -> None:
    assert runtime("--log", str(work / "no" / "log"), "state", "nope").status == 1


@pytest.mark.parametrize("verb", ["create", "start", "state", "kill", "delete"])
def test_debug_is_accepted(runtime: Runtime, work: Path, verb: str) -> None:
    log = work / "log"
    result = runtime("--debug", "--log", str(log), verb, "nope", cwd=work)
    assert result.status == 1


def test_no_traceback_reaches_the_user(runtime: Runtime, work: Path) -> None:
    """Whatever the input: a directory instead of config.json."""
    (work / "config.json").mkdir()
    result = runtime("create", "--bundle", str(work), "x")
    assert result.status == 1
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1
