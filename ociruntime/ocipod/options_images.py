"""Commands about images, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

PULL_POLICY: Option = (
    "pull-policy",
    "",
    "choice",
    "new|update|never",
    "whether the store's image will do",
)

IMAGE_COMMANDS: tuple[Command, ...] = (
    (
        "fetch",
        "IMAGE...",
        1,
        ANY,
        "put images into the store and print their ids",
        (
            PULL_POLICY,
            ("full", "", "flag", "", "print whole ids"),
            ("signature", "", "text", "FILE", "an OpenPGP signature, which must be valid"),
        ),
        (
            "IMAGE is a registry's name (busybox:1.36, localhost:5000/web, docker://NAME), an\n"
            "id, or a file: oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:DIR, tar:FILE,\n"
            "docker-archive:FILE[:NAME], aci:FILE, or a path such as ./image.tar."
        ),
    ),
    (
        "trust",
        "FILE...",
        1,
        ANY,
        "trust OpenPGP keys to sign images",
        (
            ("prefix", "", "text", "PREFIX", "for images such as PREFIX/web or PREFIX:1"),
            ("root", "", "flag", "", "for all images"),
            ("skip-fingerprint-review", "", "flag", "", "do not ask"),
        ),
        (
            "Each key of the files is shown; after a yes to all of them they are added to\n"
            "trustedkeys in the administrator's settings.  PREFIX is written in full, such as\n"
            "docker.io/library."
        ),
    ),
    (
        "config",
        "",
        0,
        0,
        "print the settings about images, merged, as JSON",
        (("pretty-print", "", "flag", "", "indented (the default)"),),
        "",
    ),
)
