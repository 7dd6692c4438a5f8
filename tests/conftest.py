"""Test session set-up: the option that names the runtime, and the plugin with the fixtures.

The runtime is a parameter, so that the same tests can judge ociruntime and its peers:

    pytest tests/runtime --runtime=/usr/sbin/runc
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

# Appended, not prepended: an installed ociruntime keeps its place before the source tree.
sys.path.append(str(Path(__file__).resolve().parent.parent))


# While the test VM (tests/v2box) keeps one processor busy, tests that need only one come first.
EARLY = ("unit", "meta", "errors", "executor", "images", "runtime")
LAST = "v2box"
# `./dev test` runs the parts in parallel, each in its own process.  In each, root tests have their
# own mounts, /run and /dev (tests/support/isolation.py), those of "pods" an own network as well.
# Engines, which change what all processes of the machine share, are in the part "rest".
FOLDERS = {
    "quiet": ("unit", "meta"),
    "runtime": ("errors", "executor", "images", "runtime"),
    "faults": ("attacks", "conformance", "faults", "fuzz", "properties", "soak"),
    "pods": ("manager", "pods"),
}
PARTS = (*FOLDERS, "rest")
REFUSED = pytest.StashKey[tuple[str, ...]]()  # the calls of --without
LONG = "long: `./dev test --all` runs it, and so does its file's name among the arguments"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runtime",
        metavar="PATH",
        default=None,
        help="the OCI runtime to test (default: $OCIRUNTIME_UNDER_TEST, "
        "then .venv/bin/ociruntime, then ociruntime on PATH)",
    )
    parser.addoption(
        "--fuzz-seconds",
        metavar="N",
        type=int,
        default=0,
        help="how long each fuzz target gets fresh inputs (default: a fixed number of them)",
    )
    parser.addoption(
        "--property-factor",
        metavar="N",
        type=int,
        default=1,
        help="look at N times as many made-up configs, and at others each time (default: 1)",
    )
    parser.addoption(
        "--invariant-rounds",
        metavar="N",
        type=int,
        default=12,
        help="how often a process of a pod is killed while its lock is watched (default: 12)",
    )
    parser.addoption(
        "--manager-seconds",
        metavar="N",
        type=int,
        default=8,
        help="how long clients ask a container manager that is killed every 3 s (default: 8)",
    )
    parser.addoption(
        "--manager-clients",
        metavar="N",
        type=int,
        default=10,
        help="how many clients these are (default: 10)",
    )
    parser.addoption(
        "--snapshot",
        choices=("own", "none", "foreign"),
        default="own",
        help="start programs from snapshots that they make themselves, always start the "
        "interpreter, or have another user's files in the snapshots' places (default: own)",
    )
    parser.addoption(
        "--full-attacks",
        action="store_true",
        help="try each race of tests/attacks as often as `./dev attack` does",
    )
    _add_refusal(parser)
    _add_selection(parser)


def _add_refusal(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without",
        metavar="CALL,...",
        default="",
        help="run everything where these system calls fail; mount-api stands for open_tree, "
        "move_mount, fsopen, fsconfig, fsmount, fspick and mount_setattr (needs root)",
    )
    parser.addoption(
        "--without-error",
        choices=("ENOSYS", "EPERM"),
        default="ENOSYS",
        help="how they fail: as on a kernel that lacks them, or as a filter forbids them "
        "(default: ENOSYS)",
    )


def _add_selection(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked long as well")
    parser.addoption(
        "--part",
        choices=PARTS,
        help="run only the tests of tests/unit and tests/meta, those of the runtime and of images, "
        "those with attacks and failing calls, those of pods and the manager, or all others",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job ignores the first two, one of nohup the last; so would every process
    # of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.pluginmanager.import_plugin("tests.support.plugin")
    _be_patient()
    _refuse(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the folders of other parts: importing all tests takes half a minute."""
    part = config.getoption("--part")
    folder = _folder(collection_path)
    if part is None or folder == "" or not collection_path.is_dir():
        return None
    return None if _part(folder) == part else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run quick folders first; keep the order within a folder."""
    if not config.getoption("--all"):
        _skip_long(config, items)
    _skip_needing(config, items)
    items.sort(key=lambda item: _rank(item.path))


def _part(folder: str) -> str:
    return next((part for part, folders in FOLDERS.items() if folder in folders), "rest")


def _skip_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked long, except those in files named on the command line."""
    named = {(config.invocation_params.dir / one.split("::")[0]).resolve() for one in config.args}
    for item in items:
        if item.get_closest_marker("long") is not None and item.path.resolve() not in named:
            item.add_marker(pytest.mark.skip(reason=LONG))


def _refuse(config: pytest.Config) -> None:
    """Make the calls of ``--without`` fail in this process and in all that it starts."""
    from tests.support import refusal

    words = config.getoption("--without")
    if not words:
        return
    if os.geteuid() != 0:
        raise pytest.UsageError("--without: needs root")
    try:
        calls = refusal.parse_calls(words)
    except KeyError as error:
        raise pytest.UsageError(f"--without: no such call known: {error.args[0]}") from None
    refusal.refuse_as_kernel(refusal.ERRORS[config.getoption("--without-error")], calls)
    config.stash[REFUSED] = calls


def _skip_needing(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need a call named by ``--without``."""
    from tests.support import refusal

    refused, error = config.stash.get(REFUSED, ()), config.getoption("--without-error")
    for item in items:
        for mark in item.iter_markers("needs_call"):
            lacking = [call for call in mark.args or refused if call in refused]
            if lacking and mark.kwargs.get("error", error) == error:
                needs = f"needs {refusal.names_of(lacking)}: " if mark.args else ""
                reason = needs + mark.kwargs["reason"]
                item.add_marker(pytest.mark.skip(reason=reason))


def _folder(path: Path) -> str:
    here = Path(__file__).parent
    return path.relative_to(here).parts[0] if here in path.parents else ""


def _rank(path: Path) -> int:
    folder = _folder(path)
    if folder in EARLY:
        return EARLY.index(folder)
    return len(EARLY) + (folder == LAST)


def _be_patient() -> None:
    """Disable hypothesis' health checks: on a busy machine, generating data takes long."""
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return  # some runs try commands alone
    slow = [HealthCheck.too_slow]
    settings.register_profile("patient", deadline=None, suppress_health_check=slow)
    settings.load_profile("patient")
