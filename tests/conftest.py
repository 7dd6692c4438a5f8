"""Test session set-up: the option that names the runtime, and the plugin with the fixtures.

The runtime is a parameter, so that the same tests can judge ociruntime and its peers:

    pytest tests/runtime --runtime=/usr/sbin/runc
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

# Appended, not prepended: an installed ociruntime keeps its place before the source tree.
sys.path.append(str(Path(__file__).resolve().parent.parent))


# While the test VM (tests/v2box) keeps one processor busy, tests that need only one come first.
EARLY = ("unit", "meta", "errors", "executor", "images", "runtime")
LAST = "v2box"
# Tests of these folders that need no root start no container and leave /run alone: `./dev test`
# runs them in a process of their own, beside the others.
QUIET = ("unit", "meta")
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
        default=1,
        help="how long to look for plans that the executor's reader cannot take (default: 1)",
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
    _add_selection(parser)


def _add_selection(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked long as well")
    parser.addoption(
        "--part",
        choices=("quiet", "rest"),
        help="run only the tests of tests/unit and tests/meta that need no root, or all others",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job ignores the first two, one of nohup the last; so would every process
    # of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.pluginmanager.import_plugin("tests.support.plugin")
    _be_patient()


@pytest.hookimpl(trylast=True)  # plugins mark what needs root
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Quick and quiet folders first; within a folder the order stays."""
    part = config.getoption("--part")
    if part is not None:
        others = [item for item in items if _is_quiet(item) != (part == "quiet")]
        items[:] = [item for item in items if _is_quiet(item) == (part == "quiet")]
        config.hook.pytest_deselected(items=others)
    if not config.getoption("--all"):
        _skip_long(config, items)
    items.sort(key=lambda item: _rank(item.path))


def _is_quiet(item: pytest.Item) -> bool:
    return _folder(item.path) in QUIET and item.get_closest_marker("root") is None


def _skip_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked long, but for those of files that the command line names."""
    named = {(config.invocation_params.dir / one.split("::")[0]).resolve() for one in config.args}
    for item in items:
        if item.get_closest_marker("long") is not None and item.path.resolve() not in named:
            item.add_marker(pytest.mark.skip(reason=LONG))


def _folder(path: Path) -> str:
    here = Path(__file__).parent
    return path.relative_to(here).parts[0] if path.is_relative_to(here) else ""


def _rank(path: Path) -> int:
    folder = _folder(path)
    if folder in EARLY:
        return EARLY.index(folder)
    return len(EARLY) + (folder == LAST)


def _be_patient() -> None:
    """Made-up data come slowly on a machine that has other work; that is no fault of a test."""
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return  # some runs try commands alone
    slow = [HealthCheck.too_slow]
    settings.register_profile("patient", deadline=None, suppress_health_check=slow)
    settings.load_profile("patient")
