"""Determine whether a runtime supports a keyword of the config that the host cannot apply.

A keyword is, for example, a mount option or the name of a capability.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from conformance.bundle import Bundle
from conformance.context import Context
from conformance.driver import Result


def _complaint(result: Result, word: str) -> str:
    """Return the error message without the keyword, times and container ids."""
    text = result.complaint.replace(word, "WORD")
    return re.sub(r"\d+", "0", re.sub(r"\boc\w+x\w+(-\w+)?\b", "ID", text))


def _create(c: Context, bundle: Bundle) -> Result:
    box, result = c.attempt_create(bundle)
    if result.ok:
        box.delete("--force")
    else:
        box.deleted = True
    return result


def refused_among(
    c: Context, words: Sequence[str], make: Callable[[Sequence[str]], Bundle]
) -> list[str]:
    """Return the words whose presence makes create fail, by bisection.

    ``make`` returns a bundle that uses the given words.
    """
    if not words or _create(c, make(words)).ok:
        return []
    if len(words) == 1:
        return list(words)
    middle = len(words) // 2
    return [*refused_among(c, words[:middle], make), *refused_among(c, words[middle:], make)]


def unrecognized(
    c: Context, words: Sequence[str], bogus: str, make: Callable[[str], Bundle]
) -> list[str]:
    """Return the words that create refuses with the same error as ``bogus``, an invalid one.

    A supported word may still be refused with another error, for example by the kernel.
    """
    refusal = _create(c, make(bogus))
    found = []
    for word in words:
        result = _create(c, make(word))
        if not result.ok and _complaint(result, word) == _complaint(refusal, bogus):
            found.append(word)
    return found
