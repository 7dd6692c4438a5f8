"""Compose the errors for invalid values of config.json: JSON path, accepted values, a suggestion.

This module is imported only when a config is refused.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.json_text import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ociruntime.runtime.spec.check_schema import MismatchError

_LONGEST = 60  # characters of a value that a message quotes
_EXPECTED = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "enum": "a string",
    "integer": "an integer",
    "boolean": "true or false",
}


def refusal(mismatch: MismatchError, path: str) -> ConfigError:
    """Return the error for a value that does not match the schema; ``path`` is its JSON path."""
    kind, value = mismatch.kind, mismatch.value
    if kind == "key":
        return _key(path, str(value), mismatch.need)
    if kind == "fewest":
        return ConfigError(path, "must not be empty")
    if kind == "text":
        return ConfigError(path, f"{shown(value)} contains {_oddity(str(value))}")
    if kind == "absolute":
        return ConfigError(path, f"must be an absolute path, got {shown(value)}")
    if kind == "enum" and isinstance(value, str):
        return unknown_word(path, value, mismatch.need)
    if kind == "integer" and type(value) is int:
        least, greatest = mismatch.need
        return ConfigError(path, f"must be from {least} to {greatest}, got {shown(value)}")
    hint = ""
    if value is None:
        hint = "null is not accepted; remove the member"
    elif kind == "integer" and isinstance(value, float):
        hint = "write the number without a fraction or exponent"
    expected = _EXPECTED[kind]
    return ConfigError(path or "config.json", f"must be {expected}, got {shown(value)}", hint)


def missing(
    path: str, siblings: dict[str, object], table: Iterable[tuple[object, ...]]
) -> ConfigError:
    """Return the error for a missing member, with a hint if the object has a similar key.

    ``path``: the member's JSON path.  ``siblings``: the object that lacks the member.  ``table``:
    the valid members of the object.
    """
    name = path.rpartition(".")[2]
    known = {member[0] for member in table}
    typo = nearest(name, [key for key in siblings if key not in known])
    hint = f'unknown key "{typo}": did you mean "{name}"?' if typo else ""
    return ConfigError(path, "is missing", hint)


def unknown_word(path: str, word: str, words: tuple[str, ...]) -> ConfigError:
    """Return the error for the string ``word``, which is not among the accepted ``words``."""
    if not words:
        return ConfigError(
            path,
            f"{shown(word)} is not accepted",
            "the specification does not define any value yet",
        )
    guess = nearest(word, words)
    hint = f'did you mean "{guess}"? ' if guess else ""
    return ConfigError(path, f"unknown value {shown(word)}", f"{hint}accepted: {', '.join(words)}")


def _key(path: str, key: str, names: tuple[str, ...] | None) -> ConfigError:
    if not key:
        return ConfigError(path, "a key must not be the empty string")
    if names is None:
        return ConfigError(path, f"the key {shown(key)} contains {_oddity(key)}")
    guess = nearest(key, names)
    hint = f'did you mean "{guess}"? ' if guess else ""
    return ConfigError(path, f"unknown key {shown(key)}", f"{hint}accepted: {', '.join(names)}")


def _oddity(text: str) -> str:
    return "a NUL byte" if "\0" in text else "an unpaired surrogate"


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the word in ``words`` that is most similar to ``word``, or "" if none is similar."""
    from ociruntime.base.similar_names import closest

    # Ignore case and the common prefix of all words, such as CAP_: they do not make words similar.
    prefixes = ("RLIMIT_", "SCMP_ACT_", "SCMP_ARCH_", "SCMP_CMP_", "SCHED_", "MPOL_", "CAP_")
    plain: dict[str, str] = {}
    for candidate in words:
        short = candidate
        for prefix in prefixes:
            short = short.removeprefix(prefix)
        plain.setdefault(short.lower(), candidate)
    short = word.upper()
    for prefix in prefixes:
        short = short.removeprefix(prefix)
    return plain.get(closest(short.lower(), plain), "")


def shown(value: object) -> str:
    """Format a value as JSON for an error message.

    Long texts are truncated; an object is shown as "an object", and an array as "an array".
    """
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = dump(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}..."


def join(path: str, step: str | int) -> str:
    """Append a step to a JSON path: ``a`` and ``b`` give ``a.b``, and ``a`` and 3 give ``a[3]``."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if step.isidentifier():
        return f"{path}.{step}" if path else step
    return f"{path}[{shown(step)}]"
