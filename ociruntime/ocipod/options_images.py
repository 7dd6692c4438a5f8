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
        "put images into the store, unpack them, print their ids",
        (
            PULL_POLICY,
            ("full", "", "flag", "", "print whole ids"),
            ("signature", "", "text", "FILE", "an OpenPGP signature, which must be valid"),
            ("replace", "", "flag", "", "let an ACI take a name that another image has"),
            ("progress", "", "choice", "bar|json", ""),
        ),
        (
            "IMAGE is a registry's name (busybox:1.36, localhost:5000/web, docker://NAME), an\n"
            "id, or a file: oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:DIR, tar:FILE,\n"
            "docker-archive:FILE[:NAME], aci:FILE, or a path such as ./image.tar. The name in\n"
            "an ACI's manifest becomes a second name of the image if it is free."
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
    (
        "image list",
        "",
        0,
        0,
        "list the images of the store",
        (
            ("fields", "", "text", "FIELD,...", "what to show"),
            ("sort", "", "text", "FIELD,...", "what to sort by (importtime)"),
            ("order", "", "choice", "asc|desc", "which way (asc)"),
            ("full", "", "flag", "", "ids, sizes and times in full"),
            ("no-legend", "", "flag", "", "leave out the line with the titles"),
            ("format", "", "choice", "json|json-pretty", "print JSON instead"),
        ),
        (
            "A line for each name. Fields: id, name, size (with the unpacked tree),\n"
            "importtime, lastused, platform, digest."
        ),
    ),
    (
        "image rm",
        "IMAGE...",
        1,
        ANY,
        "remove images from the store",
        (("force", "", "flag", "", "also what pods use; they keep what is unpacked"),),
        (
            "An image goes with all its names. The others are removed when one cannot be;\n"
            "the exit status is 254 then."
        ),
    ),
    (
        "image gc",
        "",
        0,
        0,
        "remove images that nobody needs",
        (("grace-period", "", "text", "TIME", "keep what was used within TIME (24h)"),),
        (
            "Removes images that no pod uses, their unpacked trees, and what imports that\n"
            "were broken off have left. While a pod is being prepared it waits."
        ),
    ),
    (
        "image export",
        "IMAGE FILE",
        2,
        2,
        "write an image to a file",
        (
            ("format", "", "choice", "oci-archive|oci", "an archive, or a directory (oci-archive)"),
            ("overwrite", "", "flag", "", "replace what is there"),
        ),
        (
            "Writes an OCI image layout, which fetch takes as oci-archive:FILE or oci:DIR.\n"
            "With - for FILE the archive goes to standard output."
        ),
    ),
    (
        "image extract",
        "IMAGE DIR",
        2,
        2,
        "write an image as a directory, layers as they are",
        (("overwrite", "", "flag", "", "replace the directory, with all that is in it"),),
        "DIR becomes an OCI image layout, which fetch takes as oci:DIR.",
    ),
    (
        "image render",
        "IMAGE DIR",
        2,
        2,
        "unpack an image into a directory",
        (
            ("rootfs-only", "", "flag", "", "the files alone, in DIR itself"),
            ("overwrite", "", "flag", "", "replace the directory, with all that is in it"),
        ),
        (
            "DIR gets rootfs, the files of all layers, and image-config.json, the image's\n"
            "configuration. It is not made until all is unpacked."
        ),
    ),
    (
        "image verify",
        "IMAGE...",
        1,
        ANY,
        "read images whole, and compare their digests",
        (),
        (
            "Blobs that are damaged are told, and removed: they can be fetched again then. A\n"
            "tree that has changed is unpacked again, unless a running pod has it. The exit\n"
            "status is 254 if something is damaged in the end."
        ),
    ),
    (
        "image cat-manifest",
        "IMAGE",
        1,
        1,
        "print the manifest of an image",
        (
            ("config", "", "flag", "", "its configuration instead"),
            ("index", "", "flag", "", "the index it was chosen from"),
            ("pretty-print", "", "flag", "", "with line breaks, instead of as it came"),
        ),
        "",
    ),
)
