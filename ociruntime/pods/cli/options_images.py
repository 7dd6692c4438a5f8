"""Commands about images, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

PULL_POLICY: Option = (
    "pull-policy",
    "",
    "choice",
    "new|update|never",
    "pull policy",
)

IMAGE_COMMANDS: tuple[Command, ...] = (
    (
        "fetch",
        "IMAGE...",
        1,
        ANY,
        "download images into the store, print their IDs",
        (
            PULL_POLICY,
            ("full", "", "flag", "", "print full IDs"),
            ("signature", "", "text", "FILE", "verify this detached OpenPGP signature"),
            ("replace", "", "flag", "", "let an ACI take over the name of another image"),
            ("progress", "", "choice", "bar|json", ""),
        ),
        (
            "IMAGE is a registry reference (busybox:1.36, localhost:5000/web, docker://NAME),\n"
            "an ID, or a file: oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:DIR, tar:FILE,\n"
            "docker-archive:FILE[:NAME], aci:FILE, or a path like ./image.tar. The name in\n"
            "the manifest of an ACI becomes a second name of the image if it is free."
        ),
    ),
    (
        "trust",
        "FILE...",
        1,
        ANY,
        "trust OpenPGP keys to sign images",
        (
            ("prefix", "", "text", "PREFIX", "for images like PREFIX/web or PREFIX:1"),
            ("root", "", "flag", "", "for all images"),
            ("skip-fingerprint-review", "", "flag", "", "do not ask for confirmation"),
        ),
        (
            "Shows each key in the files and asks for confirmation, then adds them to\n"
            "trustedkeys in the local settings. PREFIX is a full name like docker.io/library."
        ),
    ),
    (
        "config",
        "",
        0,
        0,
        "print the merged image settings as JSON",
        (("pretty-print", "", "flag", "", "indent (default)"),),
        "",
    ),
    (
        "image list",
        "",
        0,
        0,
        "list images in the store",
        (
            ("fields", "", "text", "FIELD,...", "fields to show"),
            ("sort", "", "text", "FIELD,...", "fields to sort by (default: importtime)"),
            ("order", "", "choice", "asc|desc", "sort order (default: asc)"),
            ("full", "", "flag", "", "do not truncate IDs, sizes and times"),
            ("no-legend", "", "flag", "", "omit the header"),
            ("format", "", "choice", "json|json-pretty", "output format"),
        ),
        (
            "Prints one line per name. Fields: id, name, size (including the unpacked tree),\n"
            "importtime, lastused, platform, digest."
        ),
    ),
    (
        "image rm",
        "IMAGE...",
        1,
        ANY,
        "remove images from the store",
        (("force", "", "flag", "", "remove images in use; pods keep the unpacked tree"),),
        (
            "Removes an image with all its names. If one image cannot be removed, the others\n"
            "are, and the exit status is 254."
        ),
    ),
    (
        "image gc",
        "",
        0,
        0,
        "remove unused images",
        (("grace-period", "", "text", "TIME", "keep images used within TIME (default: 24h)"),),
        (
            "Removes images that no pod uses, their unpacked trees, and the remains of\n"
            "interrupted imports. Waits while a pod is being prepared."
        ),
    ),
    (
        "image export",
        "IMAGE FILE",
        2,
        2,
        "export an image to a file",
        (
            ("format", "", "choice", "oci-archive|oci", "output format (default: oci-archive)"),
            ("overwrite", "", "flag", "", "overwrite an existing file"),
        ),
        (
            "Writes an OCI image layout, which `fetch` reads as oci-archive:FILE or oci:DIR.\n"
            "If FILE is -, the archive is written to standard output."
        ),
    ),
    (
        "image extract",
        "IMAGE DIR",
        2,
        2,
        "extract an image as an OCI layout directory",
        (("overwrite", "", "flag", "", "replace the directory and its content"),),
        "DIR becomes an OCI image layout, which `fetch` reads as oci:DIR.",
    ),
    (
        "image render",
        "IMAGE DIR",
        2,
        2,
        "unpack an image into a directory",
        (
            ("rootfs-only", "", "flag", "", "write only the files, into DIR itself"),
            ("overwrite", "", "flag", "", "replace the directory and its content"),
        ),
        (
            "Creates DIR with rootfs, the files of all layers, and image-config.json, the\n"
            "configuration of the image, once everything is unpacked."
        ),
    ),
    (
        "image verify",
        "IMAGE...",
        1,
        ANY,
        "verify the digests of images",
        (),
        (
            "Reports and removes damaged blobs, so that they can be fetched again. Unpacks a\n"
            "modified tree again, unless a running pod uses it. The exit status is 254 if\n"
            "anything stays damaged."
        ),
    ),
    (
        "image cat-manifest",
        "IMAGE",
        1,
        1,
        "print the manifest of an image",
        (
            ("config", "", "flag", "", "print the configuration instead"),
            ("index", "", "flag", "", "print the index it was chosen from"),
            ("pretty-print", "", "flag", "", "indent the output"),
        ),
        "",
    ),
)
