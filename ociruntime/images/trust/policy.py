"""The signature policy: parse ``policy.json``, and find the rule for an image.

    {"default": "accept",
     "prefixes": {"docker.io/library": "accept",
                  "registry.example.org": "reject",
                  "registry.example.org/team": {"signedBy": {"openpgp": true,
                                                             "cosign": ["team.pub"]}},
                  "oci:/srv/images": "accept"}}

The rule with the longest prefix that matches an image's name applies, or else the default.  One
valid signature of a listed kind suffices.  Without ``policy.json``, all images are accepted.  If
several configuration directories contain it, only the file with the highest precedence counts.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.reference import LOCAL_KINDS, looks_like_host, prefix_name
from ociruntime.images.model.settings_files import Json, Settings

ACCEPT = "accept"
REJECT = "reject"
SIGNED_BY = "signedBy"
_EXPECTED = 'use "accept", "reject" or {"signedBy": {"openpgp": true, "cosign": ["FILE", ...]}}'


@dataclass(frozen=True)
class Rule:
    """A rule of the policy; ``kind`` is ACCEPT, REJECT or SIGNED_BY.

    SIGNED_BY requires a signature by a trusted OpenPGP key (``openpgp``, see trusted_keys.py) or by
    a cosign key (``cosign``: paths of public keys).  ``where`` names the rule's file and member in
    error messages.
    """

    kind: str
    where: str
    openpgp: bool = False
    cosign: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """A parsed policy: {prefix of image names: rule}, and the default rule."""

    default: Rule
    prefixes: dict[str, Rule]

    @property
    def accepts_all(self) -> bool:
        """True if the policy accepts every image without a signature."""
        return all(rule.kind == ACCEPT for rule in (self.default, *self.prefixes.values()))

    def rule(self, name: str) -> Rule:
        """Return the rule for an image's full name (``Reference.name``)."""
        matching = [prefix for prefix in self.prefixes if covers(prefix, name)]
        return self.prefixes[max(matching, key=len)] if matching else self.default


def load_policy(settings: Settings) -> Policy:
    """Return the signature policy in the configuration directories.

    Raises HostError if ``policy.json`` cannot be read, ImageError if it is invalid.
    """
    for path, document in settings.documents("policy.json"):
        return read_policy(document, path)
    return Policy(Rule(ACCEPT, "no policy.json"), {})


def read_policy(document: Json, path: str) -> Policy:
    """Parse ``document``, the content of the policy file ``path``.

    Paths of cosign keys are relative to the file's directory.  Raises ImageError if the policy is
    invalid.
    """
    unknown = document.keys() - {"default", "prefixes"}
    if unknown:
        hint = "supported: default, prefixes"
        raise ImageError(f'read "{path}": unknown member "{min(unknown)}"', hint)
    prefixes = document.get("prefixes", {})
    if not isinstance(prefixes, dict):
        raise ImageError(f'read "{path}": prefixes must be a JSON object')
    rules: dict[str, Rule] = {}
    for written, value in prefixes.items():
        prefix = check_prefix(written, f'"{path}": prefixes')
        where = f'"{path}": prefixes["{written}"]'
        if prefix in rules:
            hint = f"the first rule is at {rules[prefix].where}"
            raise ImageError(f'{where}: duplicate rule for "{prefix}"', hint)
        rules[prefix] = _rule(value, path, where)
    return Policy(_rule(document.get("default", ACCEPT), path, f'"{path}": default'), rules)


def shown(rule: Rule) -> object:
    """Convert a rule to a JSON value, as in ``policy.json``, with the full paths of keys."""
    if rule.kind != SIGNED_BY:
        return rule.kind
    return {SIGNED_BY: {"openpgp": rule.openpgp, "cosign": list(rule.cosign)}}


def check_prefix(prefix: str, where: str) -> str:
    """Convert ``prefix``, as written in a policy, to the canonical form that image names have.

    Raises ImageError if no image name can begin with ``prefix``.  In the error message, ``where``
    names the file and the member that contain the prefix.
    """
    kind, colon, path = prefix.partition(":")
    if colon and kind in LOCAL_KINDS:
        return f"{kind}:/{path.lstrip('/')}" if path.startswith("//") else prefix
    host = prefix.partition("/")[0]
    if (
        "://" in prefix
        or not looks_like_host(host)
        or prefix != prefix.strip("/")
        or prefix != prefix.lower()
    ):
        hint = "use HOST[/PATH] as in docker.io/library/busybox, or KIND:PATH as in oci:/srv"
        raise ImageError(f'{where}: invalid image prefix "{prefix}"', hint)
    return prefix_name(prefix)


def covers(prefix: str, name: str) -> bool:
    """Return whether the image name ``name`` begins with the components of ``prefix``.

    For example, ``quay.io/team`` covers ``quay.io/team/web``, but not ``quay.io/teams/web``.  The
    prefix HOST does not cover images at HOST:PORT.
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
        raise ImageError(f"{where}: invalid rule", _EXPECTED)
    keys = value[SIGNED_BY]
    if not isinstance(keys, dict) or keys.keys() - {"openpgp", "cosign"}:
        message = "must be a JSON object with openpgp, cosign or both"
        raise ImageError(f"{where}.{SIGNED_BY}: {message}", _EXPECTED)
    openpgp, cosign = keys.get("openpgp", False), keys.get("cosign", [])
    if not isinstance(openpgp, bool) or not isinstance(cosign, list):
        message = "openpgp must be true or false, cosign a list of files"
        raise ImageError(f"{where}.{SIGNED_BY}: {message}")
    if not all(isinstance(file, str) and file for file in cosign):
        raise ImageError(f"{where}.{SIGNED_BY}.cosign must be a list of files")
    if not openpgp and not cosign:
        raise ImageError(f"{where}.{SIGNED_BY}: must require openpgp or cosign keys", _EXPECTED)
    beside = os.path.dirname(path)
    return Rule(SIGNED_BY, where, openpgp, tuple(os.path.join(beside, file) for file in cosign))
