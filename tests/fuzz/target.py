"""A fuzz target: one function that takes any bytes, and its settings."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ociruntime.base.errors import InternalError, RuntimeFailure

Mutate = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Target:
    """A fuzz target.

    ``run`` raises for an input that shows a bug.  ``covers`` are the files that it tests, below
    ociruntime/.  ``seeds`` are the first inputs besides the corpus.  ``mutate`` changes an input in
    terms of its format, in addition to libFuzzer's own changes.  ``words`` are tokens that
    libFuzzer inserts.
    """

    run: Callable[[bytes], None]
    covers: tuple[str, ...]
    seeds: Callable[[], Iterable[bytes]]
    mutate: Mutate | None = None
    words: tuple[str, ...] = ()


@contextmanager
def refusals() -> Iterator[None]:
    """Accept our own errors, which are valid answers, except InternalError, which is a bug."""
    try:
        yield
    except InternalError:
        raise
    except RuntimeFailure as failure:
        text = str(failure)
        assert text, "an error without a message"
        assert "internal error" not in text


def empty_directory(name: str) -> Path:
    """Return an empty directory of this process below the temporary directory."""
    path = Path(tempfile.gettempdir(), f"fuzz-{os.getpid()}", name)
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def remove_directories() -> None:
    """Remove the directories that ``empty_directory`` has created in this process."""
    shutil.rmtree(Path(tempfile.gettempdir(), f"fuzz-{os.getpid()}"), ignore_errors=True)
