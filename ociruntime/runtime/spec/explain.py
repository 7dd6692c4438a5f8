"""List all violations of a config's shape, not only the first.

Needs jsonschema and the schema, and is loaded only after an error. The messages are those of
``refusal.py``, so that the list repeats the original error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema.exceptions import ValidationError

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.check import MismatchError
from ociruntime.runtime.spec.load import parse, read
from ociruntime.runtime.spec.refusal import join, missing, refusal

_PACKAGE = Path(__file__).resolve().parent.parent.parent
_PLACES = (_PACKAGE / "schemas", _PACKAGE.parent / "schemas")


def explain(config: object) -> list[str]:
    """Return one sentence per problem, in the order of the document.

    Empty if there is none, or if jsonschema or the schema is not installed.
    """
    validator = config_validator()
    if validator is None:
        return []
    # jsonschema reports each missing member separately, with the list of all required ones.
    errors = validator.iter_errors(config)
    return list(dict.fromkeys(text for error in errors for text in _sentences(error)))


def explain_file(path: str) -> list[str]:
    """Explain the config at ``path``; return [] if it is not JSON or cannot be read."""
    try:
        return explain(parse(read(path), path))
    except ConfigError:
        return []


def config_validator() -> Any:  # noqa: ANN401  # jsonschema makes its classes at run time
    """Return a validator for the config's schema that rejects 1.0 as an integer."""
    try:
        from jsonschema import Draft202012Validator, validators
    except ImportError:
        return None
    schema = next((place for place in _PLACES if (place / "config.schema.json").exists()), None)
    if schema is None:
        return None
    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _checker, value: type(value) is int
    )
    extend: Any = validators.extend  # has no types
    strict = extend(Draft202012Validator, type_checker=checker)
    return strict(json.loads((schema / "config.schema.json").read_text()))


def _sentences(error: ValidationError) -> Iterator[str]:
    path = ""
    for step in error.absolute_path:
        path = join(path, step)
    value: Any = error.instance
    need: Any = error.validator_value
    rules: Any = error.schema
    match error.validator:
        case "required":
            table = [(name,) for name in rules["properties"]]
            for name in need:
                if name not in value:
                    yield str(missing(join(path, name), value, table))
            return
        case "type":
            mismatch = MismatchError(need, value)
        case "minimum" | "maximum":
            mismatch = MismatchError("integer", value, (rules["minimum"], rules["maximum"]))
        case "pattern":
            mismatch = MismatchError("absolute", value)
        case "minItems":
            mismatch = MismatchError("fewest", value)
        case "minLength":
            mismatch = MismatchError("key", value)
        case "enum" if "propertyNames" in error.absolute_schema_path:
            mismatch = MismatchError("key", value, tuple(need))
        case "enum" if isinstance(value, str):
            mismatch = MismatchError("enum", value, tuple(need))
        case _:  # an enum's value of a wrong type: "type" already reports it
            return
    yield str(refusal(mismatch, path))
