"""The table of annotations, and the page that shows it."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.annotations import ANNOTATIONS, hook_outputs, unsafe
from tests.support import project


def test_the_page_has_them_all() -> None:
    page = (project.ROOT / "docs" / "annotations.md").read_text()
    rows = [
        f"| `{name}{'NAME' if name.endswith('.') else ''}` | {meaning} | {'yes' if far else 'no'} |"
        for name, meaning, far in ANNOTATIONS
    ]
    shown = [line for line in page.splitlines() if line.startswith("| `")]
    assert shown[: len(rows)] == rows  # a table of those without effect follows


def test_what_stays_inside_is_not_called_unsafe() -> None:
    assert "run.oci.seccomp_fail_unknown_syscall" not in unsafe()
    assert "run.oci.hooks.stdout" in unsafe()


def test_files_of_hooks() -> None:
    assert hook_outputs({}) == ("", "")
    assert hook_outputs({"run.oci.hooks.stderr": "/var/log/hooks"}) == ("", "/var/log/hooks")
    with pytest.raises(ConfigError, match=r'annotations\["run.oci.hooks.stdout"\].*absolute'):
        hook_outputs({"run.oci.hooks.stdout": "relative"})
