"""Whether an image that is in the store may be used, by the policy as it is now.

The store remembers the names under which an image came in, and whose signature was found good
then: that key has to be one that may sign images of that name still.
"""

from __future__ import annotations

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.digest import digest_of
from ociruntime.images.trust.policy import ACCEPT, REJECT, load_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

    from ociruntime.images.model.settings import Settings
    from ociruntime.images.store.store import Store
    from ociruntime.images.trust.policy import Rule


def openpgp_signer(fingerprint: str) -> str:
    """What the store calls a key of OpenPGP."""
    return f"openpgp:{fingerprint}"


def cosign_signer(key: bytes) -> str:
    """What the store calls a key of cosign, of which ``key`` is the file's content."""
    return f"cosign:{digest_of(key)}"


class Permission:
    """By the policy of ``settings``, without the checks that are ``insecure``.

    Everything raises HostError, ImageError for faults of the configuration.
    """

    def __init__(self, store: Store, settings: Settings, insecure: Set[str]) -> None:
        self.store = store
        self.settings = settings
        self.policy = load_policy(settings)
        self.unsigned = "image" in insecure

    def rule(self, name: str) -> Rule:
        """What holds for images of that name.  Raises ImageError if they are rejected."""
        rule = self.policy.rule(name)
        if rule.kind == REJECT:
            raise ImageError(f'image "{name}" is rejected', rule.where)
        return rule

    def has(self, id: str, name: str) -> bool:
        """Return whether the image need not be looked at again to be used by that name.

        A name that it did not come under, because a file claims it or an administrator gave it,
        has to be allowed as well as one that it did come under.
        """
        self.rule(name)
        return self.policy.accepts_all or not self._culprit(id, name)

    def require(self, id: str, name: str) -> None:
        """Raises ImageError unless ``has``."""
        if not self.has(id, name):
            culprit = self._culprit(id, name)
            hint = f"{self.rule(culprit).where}; ocipod fetch {culprit} looks for one"
            message = f'image "{culprit}" came into the store without a good signature'
            raise ImageError(message, hint)

    def _culprit(self, id: str, name: str) -> str:
        """Return the name that the image may not be used by, "" if there is none."""
        origins = self.store.origins(id)
        if (
            origins
            and name not in origins
            and not any(self._allows(*origin) for origin in origins.items())
        ):
            return min(origins)
        return "" if self._allows(name, origins.get(name, "")) else name

    def _allows(self, name: str, signer: str) -> bool:
        """Return whether the policy lets an image come under ``name`` that ``signer`` signed."""
        rule = self.policy.rule(name)
        if rule.kind == REJECT:
            return False
        if rule.kind == ACCEPT or self.unsigned:
            return True
        return signer != "" and signer in self._signers(rule, name)

    def require_any(self, id: str) -> None:
        """For an image that is named by its id: by one of the names that it has or came under.

        Raises ImageError.
        """
        if self.policy.accepts_all:
            return
        refused: list[ImageError] = []
        for name in self.store.origins(id) or [id]:
            try:
                self.require(id, name)
            except ImageError as error:
                refused.append(error)
            else:
                return
        raise refused[0]

    def _signers(self, rule: Rule, name: str) -> set[str]:
        """All that may sign an image of that name now."""
        from ociruntime.images.trust.trusted_keys import keys_for

        trusted = keys_for(name, self.settings) if rule.openpgp else []
        found = {openpgp_signer(key.fingerprint) for key in trusted}
        for path in rule.cosign:
            try:
                with open(path, "rb") as file:
                    found.add(cosign_signer(file.read()))
            except OSError as error:
                raise HostError(f"read {path}", error) from None
        return found
