"""An image's settings, layers and history as a JSON object, as ``image inspect`` prints it.

    {"id", "repo_tags": [names], "repo_digests": [names with a digest], "created", "author",
     "architecture", "os", "variant", "size": bytes,
     "config": {"Env", "Cmd", "Entrypoint", ...} as in the image configuration,
     "root_fs": {"type": "layers", "layers": [diff_id]},
     "history": [{"created", "created_by", "comment", "size": bytes}]}

The members correspond to those of ``docker image inspect``, but their names are in snake_case.  All
strings come from the image and are untrusted.
"""

from __future__ import annotations

from typing import Any

from ociruntime.images.model.image import Image

Details = dict[str, Any]


def details(image: Image) -> Details:
    """Return the details of an image as a JSON object; unknown values are empty strings."""
    config = image.config
    return {
        "id": image.id,
        "repo_tags": [name for name in image.names if "@" not in name],
        "repo_digests": [name for name in image.names if "@" in name],
        **{name: _text(config, name) for name in ("created", "author", "architecture", "os")},
        "variant": _text(config, "variant"),
        "size": image.size,
        "config": image.app,
        "root_fs": {"type": "layers", "layers": [layer.diff_id for layer in image.layers]},
        "history": _history(image),
    }


def _history(image: Image) -> list[Details]:
    """Return an image's build steps, oldest first, each with the size of its layer.

    Each step that is not marked ``empty_layer`` created the next layer (image-spec, config.md).
    If there are more layers than such steps, a step without a description is appended for each
    further layer.
    """
    sizes = [layer.size for layer in image.layers]
    steps = []
    recorded = image.config.get("history")
    for entry in recorded if isinstance(recorded, list) else ():
        step = entry if isinstance(entry, dict) else {}
        has_layer = step.get("empty_layer") is not True and bool(sizes)
        steps.append(
            {
                **{name: _text(step, name) for name in ("created", "created_by", "comment")},
                "size": sizes.pop(0) if has_layer else 0,
            }
        )
    no_step = {"created": "", "created_by": "", "comment": ""}
    return [*steps, *({**no_step, "size": size} for size in sizes)]


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
