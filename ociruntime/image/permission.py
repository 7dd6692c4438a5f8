"""Whether an image that is in the store may be used, by the policy as it is now.

The store remembers the names under which an image came in, and whose signature was found good
then: that key has to be one that may sign images of that name still.
"""

from __future__ import annotations

from ociruntime.errors import HostError, ImageError
from ociruntime.image.digest import digest_of
from ociruntime.image.policy import ACCEPT, REJECT, load_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

    from ociruntime.image.policy import Rule
    from ociruntime.image.settings import Settings
    from ociruntime.image.store import Store


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
        """Whether the image need not be looked at again to be used by that name."""
        rule = self.rule(name)
        if rule.kind == ACCEPT or self.unsigned:
            return True
        signer = self.store.origins(id).get(name, "")
        return signer != "" and signer in self._signers(rule, name)

    def require(self, id: str, name: str) -> None:
        """Raises ImageError unless ``has``."""
        if not self.has(id, name):
            where = self.policy.rule(name).where
            hint = f"{where}; ocipod fetch {name} looks for one"
            raise ImageError(f'image "{name}" came into the store without a good signature', hint)

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
        from ociruntime.image.trusted_keys import keys_for

        trusted = keys_for(name, self.settings) if rule.openpgp else []
        found = {openpgp_signer(key.fingerprint) for key in trusted}
        for path in rule.cosign:
            try:
                with open(path, "rb") as file:
                    found.add(cosign_signer(file.read()))
            except OSError as error:
                raise HostError(f"read {path}", error) from None
        return found
