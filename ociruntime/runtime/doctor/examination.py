"""The entry points of the command ``check``: examine the host, or check a bundle."""

from __future__ import annotations

import os

from ociruntime.runtime.doctor.bundle import examine_bundle
from ociruntime.runtime.doctor.engines import ENGINES
from ociruntime.runtime.doctor.environment import CGROUPS, INSTALLATION, PRIVILEGES, USERS
from ociruntime.runtime.doctor.finding import Fault, Finding, Host, run_probes
from ociruntime.runtime.doctor.kernel import KERNEL
from ociruntime.runtime.doctor.trial import TRIAL
from ociruntime.runtime.lifecycle.context import Context, CreateOptions, is_rootless

TABLES = (
    ("kernel", KERNEL),
    ("cgroups", CGROUPS),
    ("users", USERS),
    ("privileges", PRIVILEGES),
    ("installation", INSTALLATION),
    ("engines", ENGINES),
    ("trial", TRIAL),
)


def examine_host(context: Context) -> list[Finding]:
    """Run all probes of the host, clean up after them, and return their findings."""
    return run_probes(_host(context), TABLES)


def check_bundle(context: Context, options: CreateOptions) -> list[Fault]:
    """Return all faults of a bundle.  Raises ConfigError if the bundle does not exist."""
    return examine_bundle(context, options, _host(context))


def _host(context: Context) -> Host:
    return Host(context.root, is_rootless(os.environb, os.geteuid()))
