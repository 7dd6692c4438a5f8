"""Check whether the signature policy still allows an image that is already in the store.

The store records each name under which an image was imported, and the signer whose signature the
import verified.  The image may be used under that name only while the policy accepts that signer.
"""

from __future__ import annotations

from collections.abc import Set

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.digest import digest_of
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from ociruntime.images.trust.policy import ACCEPT, REJECT, Rule, load_policy


def openpgp_signer(fingerprint: str) -> str:
    """Return the name by which the store records an OpenPGP signer: ``openpgp:FINGERPRINT``."""
    return f"openpgp:{fingerprint}"


def cosign_signer(key: bytes) -> str:
    """Return the name by which the store records a cosign signer: ``cosign:sha256:HEX``.

    ``key`` is the content of the signer's public key file.
    """
    return f"cosign:{digest_of(key)}"


class Permission:
    """Apply the signature policy in ``settings`` to the images in ``store``.

    If ``insecure`` contains "image", no signatures are required.  The constructor and the methods
    raise HostError if a configuration file cannot be read, ImageError if it is malformed.
    """

    def __init__(self, store: Store, settings: Settings, insecure: Set[str]) -> None:
        self.store = store
        self.settings = settings
        self.policy = load_policy(settings)
        self.unsigned = "image" in insecure

    def rule(self, name: str) -> Rule:
        """Return the policy's rule for images called ``name``.

        Raises ImageError if the rule rejects them.
        """
        rule = self.policy.rule(name)
        if rule.kind == REJECT:
            message = f'image "{name}" is rejected by the signature policy'
            raise ImageError(message, f"see {rule.where}")
        return rule

    def has(self, id: str, name: str) -> bool:
        """Return whether a stored image may be used as ``name`` without verifying it again.

        An ACI's manifest or an administrator may have given the image this name after its import.
        The policy must then allow both this name and a name under which the image was imported.
        Raises ImageError if the policy rejects all images of this name.
        """
        self.rule(name)
        return self.policy.accepts_all or not self._culprit(id, name)

    def require(self, id: str, name: str) -> None:
        """Raise ImageError unless the stored image ``id`` may be used as ``name`` (see ``has``)."""
        if not self.has(id, name):
            culprit = self._culprit(id, name)
            hint = f"see {self.rule(culprit).where}; verify the image with ocipod fetch {culprit}"
            message = f'image "{culprit}" was imported without a valid signature'
            raise ImageError(message, hint)

    def _culprit(self, id: str, name: str) -> str:
        """Return the name that the policy refuses when the image ``id`` is used as ``name``.

        This is ``name`` itself, or a name under which the image was imported.  Returns "" if the
        policy allows the use.
        """
        origins = self.store.origins(id)
        if (
            origins
            and name not in origins
            and not any(self._allows(*origin) for origin in origins.items())
        ):
            return min(origins)
        return "" if self._allows(name, origins.get(name, "")) else name

    def _allows(self, name: str, signer: str) -> bool:
        """Return whether the policy accepts an image called ``name`` and signed by ``signer``."""
        rule = self.policy.rule(name)
        if rule.kind == REJECT:
            return False
        if rule.kind == ACCEPT or self.unsigned:
            return True
        return signer != "" and signer in self._signers(rule, name)

    def require_any(self, id: str) -> None:
        """Raise ImageError unless the policy allows a name under which the image was imported."""
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
        """Return the signers whose keys ``rule`` currently accepts for images called ``name``."""
        from ociruntime.images.trust.trusted_keys import keys_for

        trusted = keys_for(name, self.settings) if rule.openpgp else []
        signers = {openpgp_signer(key.fingerprint) for key in trusted}
        for path in rule.cosign:
            try:
                with open(path, "rb") as file:
                    signers.add(cosign_signer(file.read()))
            except OSError as error:
                raise HostError(f'read cosign key "{path}"', error) from None
        return signers
