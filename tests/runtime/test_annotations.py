"""Annotations that change the runtime's behaviour (docs/annotations.md)."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.test_pidfd_socket import listening, received
from tests.support.bundle import Bundle
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer


def annotated(made: Bundle, **annotations: Path | str) -> Bundle:
    made.config["annotations"] = {
        "run.oci." + name.replace("__", "."): str(value) for name, value in annotations.items()
    }
    return made


def hook(script: str) -> dict[str, object]:
    return {"path": "/bin/sh", "args": ["sh", "-c", script], "env": ["PATH=/usr/bin:/bin"]}


@judge_by("ociruntime", "crun")
def test_files_for_what_hooks_print(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    made = annotated(bundle(), hooks__stdout=work / "out", hooks__stderr=work / "err")
    made.hooks["createRuntime"] = [hook("echo 1; echo one >&2")]
    made.hooks["poststart"] = [hook("echo 2; echo two >&2")]
    made.hooks["poststop"] = [hook("echo 3")]
    (work / "out").write_text("0\n")
    one = container(made).started()
    one.delete("--force").ok()
    assert (work / "out").read_text() == "0\n1\n2\n3\n"
    assert (work / "err").read_text() == "one\ntwo\n"


@judge_by("ociruntime")
def test_error_shows_what_this_hook_has_printed(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    made = annotated(bundle(), hooks__stderr=work / "err")
    made.hooks["createRuntime"] = [hook("echo earlier >&2"), hook("echo now >&2; exit 3")]
    failed = container(made).create().failed("exited with status 3; stderr: now")
    assert "earlier" not in failed.err
    assert (work / "err").read_text() == "earlier\nnow\n"


@judge_by("ociruntime")
def test_no_file_for_what_hooks_print(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    made = annotated(bundle(), hooks__stdout=work)
    made.hooks["createRuntime"] = [hook("true")]
    container(made).create().failed("output file", "is a directory")
    container(annotated(bundle(), hooks__stdout="log")).create().failed("an absolute path")


@judge_by("ociruntime", "crun")
def test_pidfd_receiver(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    one = container(annotated(bundle(), pidfd_receiver=work / "pidfd"))
    with listening(work / "pidfd") as listener:
        one.created()
        _, facts = received(listener)
    assert f"Pid:\t{one.pid}\n" in facts


@judge_by("ociruntime", "crun")
@deviates(crun="refuses the known ones, too")
def test_unknown_system_calls(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle()
    call = {"names": ["read"], "action": "SCMP_ACT_ALLOW"}
    made.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [call]}
    container(annotated(made, seccomp_fail_unknown_syscall="1")).created()
    call["names"] = ["read", "no_such_call"]
    container(annotated(made, seccomp_fail_unknown_syscall="0")).created()
    refused = container(annotated(made, seccomp_fail_unknown_syscall="1")).create()
    refused.failed("linux.seccomp.syscalls", "no_such_call")
