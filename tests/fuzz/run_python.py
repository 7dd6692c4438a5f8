"""Fuzz one Python target with atheris: ``run_python.py NAME LIBFUZZER-ARGUMENT...``."""

from __future__ import annotations

import logging
import random
import sys
from pathlib import Path

import atheris

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))
with atheris.instrument_imports(include=["ociruntime"]):
    from tests.fuzz import table
    from tests.fuzz.target import Mutate, Target, remove_directories

OWN_SHARE = 0.8  # of the changes, made by the target's own mutator


def start(target: Target, arguments: list[str]) -> None:
    """Run libFuzzer on a target; it ends the process.  ``arguments`` begin with a name."""
    own = {"custom_mutator": _mutator(target.mutate)} if target.mutate else {}
    atheris.Setup(arguments, target.run, internal_libfuzzer=True, **own)
    atheris.Fuzz()


def _mutator(change: Mutate) -> object:
    def mutate(data: bytes, largest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() > OWN_SHARE:
            return bytes(atheris.Mutate(data, largest))
        return change(data, rng)[:largest]

    return mutate


def main(arguments: list[str]) -> None:
    logging.disable()
    with atheris.instrument_imports(include=["ociruntime"]):
        target = table.load(arguments[0])
    try:
        start(target, arguments)
    finally:
        remove_directories()


if __name__ == "__main__":
    main(sys.argv[1:])
