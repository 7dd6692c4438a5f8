"""The tables walked at run time and jsonschema with the schema agree on every document."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validators

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec import schema
from ociruntime.runtime.spec.check_schema import check, check_schema, problems
from ociruntime.runtime.spec.default_config import default_config
from tests.support import project

SCHEMA = json.loads((project.ROOT / "schemas" / "config.schema.json").read_text())
# Unlike the specification of JSON Schema, 1.0 is no integer here.
_STRICT: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _checker, value: type(value) is int
    ),
)
VALIDATOR = _STRICT(SCHEMA)

# What the schema cannot say, NUL and half surrogate pairs, has its own tests.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([-1, 0, 1, 7, 8, 100, 101, 2**16, 2**32 - 2, 2**32 - 1, 2**63, 2**64 - 1]),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.sampled_from(["/", "/x", "", "pid", "RLIMIT_CPU", "SCMP_ACT_ALLOW", "c", "private"]),
    st.just([]),
    st.just({}),
    st.just([""]),
    st.just({"": "x"}),
    st.just({"x": "y"}),
).map(copy.deepcopy)  # a document of them is changed in place


def documents(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a node of the schema accepts."""
    while "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].removeprefix("#/$defs/")]
    match node.get("type"):
        case "object" if "additionalProperties" in node:
            names = node["propertyNames"].get("enum")
            keys = st.sampled_from(names) if names else TEXTS.filter(bool)
            return st.dictionaries(keys, documents(node["additionalProperties"]), max_size=2)
        case "object":
            members = {name: documents(child) for name, child in node["properties"].items()}
            required = {name: members.pop(name) for name in node.get("required", ())}
            return st.fixed_dictionaries(required, optional=members)
        case "array":
            if node["items"].get("enum") == []:
                return st.just([])
            least = node.get("minItems", 0)
            return st.lists(documents(node["items"]), min_size=least, max_size=2)
        case "integer":
            return st.integers(node["minimum"], node["maximum"])
        case "boolean":
            return st.booleans()
        case "string" if "enum" in node:
            return st.sampled_from(node["enum"])
        case "string":
            return TEXTS.map(lambda text: f"/{text}") if "pattern" in node else TEXTS
    return JUNK  # another platform's object


CONFIGS = documents(SCHEMA["$defs"]["Config"])


def places(value: object) -> list[tuple[Any, Any]]:
    """(container, key or index) of everything in a document."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found += [(value, key) for key in value]
        found += [place for item in value.values() for place in places(item)]
    elif isinstance(value, list):
        found += [(value, index) for index in range(len(value))]
        found += [place for item in value for place in places(item)]
    return found


@st.composite
def mutated(draw: st.DrawFn) -> object:
    """An acceptable config, or the default one, with a few things changed."""
    config = copy.deepcopy(draw(st.one_of(CONFIGS, st.builds(default_config))))
    for _ in range(draw(st.integers(1, 3))):
        found = places(config)
        if not found:
            break
        container, place = draw(st.sampled_from(range(len(found))).map(found.__getitem__))
        change = draw(st.sampled_from(["replace", "delete", "add"]))
        if change == "replace":
            container[place] = draw(JUNK)
        elif change == "delete":
            del container[place]
        elif isinstance(container, dict):
            container[draw(TEXTS)] = draw(JUNK)
        else:
            container.append(draw(JUNK))
    return config


def accepts(config: object) -> bool:
    try:
        check_schema(config)
    except ConfigError:
        return False
    return True


@settings(max_examples=150, deadline=None)
@given(CONFIGS)
def test_what_the_schema_accepts_is_accepted(config: object) -> None:
    assert VALIDATOR.is_valid(config)
    check_schema(config)


@settings(max_examples=400, deadline=None)
@given(mutated())
def test_changed_documents_are_judged_alike(config: object) -> None:
    assert accepts(config) == VALIDATOR.is_valid(config)


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_the_refusal_is_the_first_of_all_problems(config: object) -> None:
    problem = ""
    try:
        check_schema(config)
    except ConfigError as error:
        problem = str(error)
    listed = [str(each) for each in problems(config, "object", schema.CONFIG)]
    assert listed[:1] == ([problem] if problem else [])
    assert len(listed) == len(set(listed))


@given(JUNK)
def test_a_config_is_an_object(junk: object) -> None:
    assert not accepts(junk)


# The tables, not the lists of words beside them.
TABLES = [
    pytest.param(table, id=name)
    for name, table in vars(schema).items()
    if name.isupper() and isinstance(table[0], tuple)
]


@pytest.mark.parametrize("table", TABLES)
def test_unknown_members_are_accepted(table: tuple[tuple[str, bool, str, Any], ...]) -> None:
    """CFG-EXT-01, at every level."""
    unknown = {"x": {}, "org.example.unknown": [None], "y\0": "\0"}
    required = [row[0] for row in table if row[1]]
    if not required:
        check(unknown, "object", table, "here")
        return
    with pytest.raises(ConfigError) as caught:
        check(unknown, "object", table, "here")
    assert str(caught.value).startswith(f"here.{required[0]}: is missing")


@pytest.mark.parametrize("other", ["freebsd", "solaris", "vm", "windows", "zos"])
def test_other_platforms_are_not_looked_into(other: str) -> None:
    """VM-01."""
    check_schema({**default_config(), other: {"kernel": 5, "": None}})


@pytest.mark.parametrize(
    "text", ["a\0b", "\ud800", "x\udfff"], ids=["nul", "high surrogate", "low surrogate"]
)
@pytest.mark.parametrize("place", ["args", "annotations", "key", "hostname"])
def test_strings_are_fit_for_system_calls(text: str, place: str) -> None:
    config = default_config()
    match place:
        case "args":
            config["process"]["args"].append(text)
        case "annotations":
            config["annotations"] = {"a": text}
        case "key":
            config["annotations"] = {text: "a"}
        case _:
            config["hostname"] = text
    with pytest.raises(ConfigError, match=r"(args\[1\]|annotations|hostname).*(NUL|surrogate)"):
        check_schema(config)


def test_other_unicode_is_welcome() -> None:
    config = default_config()
    config["process"]["args"] = ["grüße", "\U0001f433", "日本"]
    check_schema(config)


def test_integers_are_not_true_and_not_fractions() -> None:
    for wrong in (True, False, 1.0, 0.0, "1", None, [1]):
        config = default_config()
        config["process"]["user"]["uid"] = wrong
        with pytest.raises(ConfigError, match=r"process\.user\.uid: "):
            check_schema(config)
