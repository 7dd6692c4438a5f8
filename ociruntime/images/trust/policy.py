"""Whose images are accepted: the file ``policy.json``.

    {"default": "accept",
     "prefixes": {"docker.io/library": "accept",
                  "registry.example.org": "reject",
                  "registry.example.org/team": {"signedBy": {"openpgp": true,
                                                             "cosign": ["team.pub"]}},
                  "oci:/srv/images": "accept"}}

The longest prefix of an image's name decides, in whole parts; what has none falls under the
default.  One valid signature of any kind that is named suffices.  Without the file everything is
accepted.  The strongest directory of configuration that has a policy.json is the one that counts.
"""

from __future__ import annotations

import os.path

from ociruntime.base.errors import ImageError
from ociruntime.images.model.reference import LOCAL_KINDS
from ociruntime.images.model.reference_parts import is_host_alone, prefix_name
from ociruntime.images.model.value_class import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.images.model.settings import Json, Settings

ACCEPT = "accept"
REJECT = "reject"
SIGNED_BY = "signedBy"
_WANTED = '"accept", "reject" or {"signedBy": {"openpgp": true, "cosign": ["FILE", ...]}}'


@frozen
class Rule:
    """``kind`` is accept, reject or signedBy, then with ``openpgp`` (the trusted keys of the
    image's prefix) or files of ``cosign`` keys, or both.  ``where`` is for messages.
    """

    kind: str
    where: str
    openpgp: bool = False
    cosign: tuple[str, ...] = ()


@frozen
class Policy:
    """Prefix -> rule."""

    default: Rule
    prefixes: dict[str, Rule]

    @property
    def accepts_all(self) -> bool:
        """Whether nobody need ask what an image is called."""
        return all(rule.kind == ACCEPT for rule in (self.default, *self.prefixes.values()))

    def rule(self, name: str) -> Rule:
        """What holds for an image of that name (Reference.name)."""
        matching = [prefix for prefix in self.prefixes if covers(prefix, name)]
        return self.prefixes[max(matching, key=len)] if matching else self.default


def load_policy(settings: Settings) -> Policy:
    """Raises HostError, ImageError."""
    for path, document in settings.documents("policy.json"):
        return read_policy(document, path)
    return Policy(Rule(ACCEPT, "no policy.json"), {})


def read_policy(document: Json, path: str) -> Policy:
    """``path`` is told in errors, and keys of cosign lie beside it.  Raises ImageError."""
    unknown = document.keys() - {"default", "prefixes"}
    if unknown:
        raise ImageError(f'{path}: unknown member "{min(unknown)}"', "default, prefixes")
    prefixes = document.get("prefixes", {})
    if not isinstance(prefixes, dict):
        raise ImageError(f"{path}: prefixes: not an object")
    rules: dict[str, Rule] = {}
    for written, value in prefixes.items():
        prefix = check_prefix(written, f"{path}: prefixes")
        where = f'{path}: prefixes["{written}"]'
        if prefix in rules:
            raise ImageError(f"{where}: there is a rule for {prefix} already", rules[prefix].where)
        rules[prefix] = _rule(value, path, where)
    return Policy(_rule(document.get("default", ACCEPT), path, f"{path}: default"), rules)


def shown(rule: Rule) -> object:
    """The rule as a policy.json has it, files by their full path."""
    if rule.kind != SIGNED_BY:
        return rule.kind
    return {SIGNED_BY: {"openpgp": rule.openpgp, "cosign": list(rule.cosign)}}


def check_prefix(prefix: str, where: str) -> str:
    """``prefix`` as full names of images begin with it.  Raises ImageError if none can."""
    kind, colon, path = prefix.partition(":")
    if colon and kind in LOCAL_KINDS:
        return f"{kind}:/{path.lstrip('/')}" if path.startswith("//") else prefix
    host = prefix.partition("/")[0]
    if (
        "://" in prefix
        or not is_host_alone(host)
        or prefix != prefix.strip("/")
        or prefix != prefix.lower()
    ):
        hint = "HOST or HOST/PATH as in docker.io/library/busybox, or KIND:PATH as in oci:/srv"
        raise ImageError(f'{where}: "{prefix}" is no prefix of images', hint)
    return prefix_name(prefix)


def covers(prefix: str, name: str) -> bool:
    """Whether ``name`` begins with all parts of ``prefix``.

    A bare registry covers no other port of its host.
    """
    if name == prefix:
        return True
    if not name.startswith(prefix):
        return False
    return prefix.endswith((":", "/")) or name[len(prefix)] in ("/:@" if "/" in prefix else "/")


def _rule(value: object, path: str, where: str) -> Rule:
    if value in (ACCEPT, REJECT):
        return Rule(str(value), where)
    if not isinstance(value, dict) or value.keys() != {SIGNED_BY}:
        raise ImageError(f"{where}: unknown rule", _WANTED)
    keys = value[SIGNED_BY]
    if not isinstance(keys, dict) or keys.keys() - {"openpgp", "cosign"}:
        raise ImageError(f"{where}.{SIGNED_BY}: unknown kind of keys", _WANTED)
    openpgp, cosign = keys.get("openpgp", False), keys.get("cosign", [])
    if not isinstance(openpgp, bool) or not isinstance(cosign, list):
        raise ImageError(f"{where}.{SIGNED_BY}: not of the wanted form", _WANTED)
    if not all(isinstance(file, str) and file for file in cosign):
        raise ImageError(f"{where}.{SIGNED_BY}.cosign: not a list of files")
    if not openpgp and not cosign:
        raise ImageError(f"{where}.{SIGNED_BY}: no key can sign it", _WANTED)
    beside = os.path.dirname(path)
    return Rule(SIGNED_BY, where, openpgp, tuple(os.path.join(beside, file) for file in cosign))
