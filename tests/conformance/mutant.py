"""ociruntime with a broken plan: ``mutant.py MUTATION ARGUMENT...``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from ociruntime.runtime.cli.main import main
from ociruntime.runtime.lifecycle import prepare_create
from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.plan import Plan
from ociruntime.runtime.spec.config_types import Config
from tests.conformance.mutations import MUTATIONS


def broken_plan(config: Config, facts: HostFacts, request: Request) -> Plan:
    plan = compile_plan(config, facts, request)
    MUTATIONS[sys.argv[1]].change(plan)
    return plan


if __name__ == "__main__":
    vars(prepare_create)["compile_plan"] = broken_plan
    os._exit(main(sys.argv[2:]))
