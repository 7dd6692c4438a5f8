"""`ociruntime check [BUNDLE]`: print the problems of this host, or of a bundle."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence

from ociruntime.base.json_text import dump
from ociruntime.base.log import plain
from ociruntime.base.process import end_on_signals
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import STDOUT, write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.check.check_bundle import examine_bundle
from ociruntime.runtime.check.engine_probes import ENGINES
from ociruntime.runtime.check.environment_probes import CGROUPS, INSTALLATION, PRIVILEGES, USERS
from ociruntime.runtime.check.finding import (
    LIMITED,
    MISSING,
    OK,
    Fault,
    Finding,
    Host,
    can_run,
    run_probes,
)
from ociruntime.runtime.check.kernel_probes import KERNEL
from ociruntime.runtime.check.trial import TRIAL
from ociruntime.runtime.cli.container_options import container_options, take_bundle_argument
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.state_root import is_rootless

TABLES = (
    ("kernel", KERNEL),
    ("cgroups", CGROUPS),
    ("users", USERS),
    ("privileges", PRIVILEGES),
    ("installation", INSTALLATION),
    ("engines", ENGINES),
    ("trial", TRIAL),
)
Paint = Callable[[str, str], str]

_COLOURS = {OK: "32", LIMITED: "33", MISSING: "31", "fault": "31", "warning": "33"}
_STATE = 9  # width of the column for the state
_NAME = 22
_NARROW, _WIDE = 60, 110


def run(context: Context, arguments: Arguments) -> int:
    """Check the host or a bundle and print the result; return 0 if containers can run, else 1."""
    json = arguments.text("format") == "json"
    take_bundle_argument(arguments)
    if not arguments.text("bundle"):
        end_on_signals()  # so that a signal removes the test container's directory
        findings = examine_host(context)
        write(_dump(host_values(findings)) if json else host_text(findings, *_output_style()))
        return 0 if can_run(findings) else 1
    options = container_options(arguments, "check", detach=True)
    faults = check_bundle(context, options)
    if json:
        write(_dump(bundle_values(options.bundle, faults)))
    else:
        write(bundle_text(options.bundle, faults, *_output_style()))
    return 0 if all(each.warning for each in faults) else 1


def host_values(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the document that `check --format json` prints for the host."""
    return {
        "canRun": can_run(findings),
        "findings": [
            {key: value for key, value in each._asdict().items() if value != ""}
            for each in findings
        ],
    }


def bundle_values(bundle: str, faults: Sequence[Fault]) -> dict[str, object]:
    """Return the document that `check --format json` prints for a bundle."""
    listed = [
        {
            "state": "warning" if each.warning else "fault",
            "where": each.where,
            "message": each.message,
            "hint": each.hint,
        }
        for each in faults
    ]
    return {
        "bundle": bundle,
        "canRun": all(each.warning for each in faults),
        "findings": [{key: value for key, value in each.items() if value} for each in listed],
    }


def host_text(findings: Sequence[Finding], width: int, paint: Paint) -> str:
    """Format the findings about the host as text: one line each, grouped by subject.

    The consequences and the remedy of a problem follow on the next lines.  ``width`` is in columns;
    ``paint(state, text)`` returns ``text`` in the colour for ``state``.
    """
    lines: list[str] = []
    subject = ""
    for each in findings:
        if each.subject != subject:
            subject = each.subject
            lines += ["", subject] if lines else [subject]
        state = paint(each.state, each.state.ljust(_STATE))
        lines += _wrapped(
            f"  {state}{plain(each.name).ljust(_NAME)}", each.found, width, _STATE + _NAME + 2
        )
        for word, text in (("means: ", each.meaning), ("fix:   ", each.remedy)):
            if text:
                lines += _wrapped(" " * (_STATE + 2) + word, text, width, _STATE + 9)
    counts = ", ".join(
        f"{sum(each.state == state for each in findings)} {state}"
        for state in (OK, LIMITED, MISSING)
    )
    able = can_run(findings)
    verdict = "containers can run here" if able else "containers cannot run here"
    return "\n".join([*lines, "", f"{paint(OK if able else MISSING, verdict)}: {counts}"]) + "\n"


def bundle_text(bundle: str, faults: Sequence[Fault], width: int, paint: Paint) -> str:
    """Format a bundle's faults as text, one paragraph each, worded like the errors of `create`.

    ``width`` is in columns; ``paint(state, text)`` returns ``text`` in the colour for ``state``.
    """
    lines: list[str] = []
    for each in faults:
        state = "warning" if each.warning else "fault"
        text = f"{each.where}: {each.message}" if each.where else each.message
        lines += _wrapped(paint(state, state.ljust(_STATE)), text, width, _STATE)
        if each.hint:
            lines += _wrapped(" " * _STATE + "fix: ", each.hint, width, _STATE + 5)
    warnings = sum(each.warning for each in faults)
    count = len(faults) - warnings
    verdict = f"{count} fault{'s' * (count != 1)}" if count else "no faults"
    if warnings:
        verdict += f", {warnings} warning{'s' * (warnings != 1)}"
    if lines:
        lines.append("")
    lines.append(f"{paint('fault' if count else OK, verdict)} in {plain(bundle)}")
    return "\n".join(lines) + "\n"


def _wrapped(head: str, text: str, width: int, indent: int) -> Iterator[str]:
    """Yield ``head`` followed by ``text``, wrapped to ``width`` columns.

    The second and later lines are indented by ``indent`` spaces.
    """
    room = width - indent
    lines = textwrap.wrap(plain(text), room, break_on_hyphens=False, break_long_words=False)
    yield head + (lines[0] if lines else "")
    for line in lines[1:]:
        yield " " * indent + line


def _output_style() -> tuple[int, Paint]:
    """Return (width in columns, function that colours text for the terminal).

    The function is ``uncoloured`` if NO_COLOR is set or stdout is not a terminal.
    """
    width = min(max(shutil.get_terminal_size((100, 0)).columns, _NARROW), _WIDE)
    may_colour = os.isatty(STDOUT) and not os.environ.get("NO_COLOR")
    return width, coloured if may_colour and os.environ.get("TERM") != "dumb" else uncoloured


def coloured(state: str, text: str) -> str:
    """Return ``text`` in the terminal colour for ``state``, such as OK or MISSING."""
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def uncoloured(state: str, text: str) -> str:  # noqa: ARG001  # as coloured()
    """Return ``text`` without colour; has the same parameters as ``coloured``."""
    return text


def _dump(values: object) -> str:
    return dump(values, 2) + "\n"


COMMANDS = (
    Command(
        "check [BUNDLE]",
        "check that this host, or a bundle on it, can run",
        run,
        options=(
            Option("bundle", "same as BUNDLE", "DIR", short="b"),
            Option("config", "config file in the bundle (default: config.json)", "FILE", short="f"),
            Option("format", "output format (default: text)", "text|json", kind="choice"),
        ),
        details=(
            "Without BUNDLE: examines the kernel, cgroups, privileges and this installation,\n"
            "and creates a test container. With BUNDLE: lists every problem in config.json,\n"
            "and what it needs that the host lacks. Nothing is left behind. Exits with 0 if\n"
            "containers can run here or, with BUNDLE, if that bundle can, else with 1."
        ),
        examples=(
            ("Check this host", "ociruntime check"),
            ("List every problem of a bundle", "ociruntime check /srv/web"),
        ),
        exit_status=(("0", "no problem found"), ("1", "problems found, or any other failure")),
    ),
)


def examine_host(context: Context) -> list[Finding]:
    """Run all probes of the host and return their findings."""
    return run_probes(_host(context), TABLES)


def check_bundle(context: Context, options: CreateOptions) -> list[Fault]:
    """Return all faults of a bundle, followed by the warnings.

    Raises ConfigError if the bundle does not exist, or its config.json is not JSON.
    """
    return examine_bundle(context, options, _host(context))


def _host(context: Context) -> Host:
    return Host(context.root, is_rootless(os.environb, os.geteuid()))
