"""Find the handler that a container's annotations select, such as wasm (docs/handlers.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.handlers.wasm import handle
from ociruntime.runtime.spec.annotations import HANDLER, WASM_VARIANT, where
from ociruntime.runtime.spec.check_schema import check_schema
from ociruntime.runtime.spec.config_types import Config
from ociruntime.runtime.spec.validate import validate

Handler: TypeAlias = Callable[[Config, str], Config]


GROUP = "ociruntime.runtime.handlers"  # of entry points
NATIVE = "native"


def handler_name(annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return (handler name, annotation that selects it); (``native``, "") without an annotation."""
    if HANDLER in annotations:
        return annotations[HANDLER] or NATIVE, HANDLER
    if annotations.get(WASM_VARIANT) == "compat":
        return "wasm", WASM_VARIANT
    return NATIVE, ""


def handled(config: Config, rootfs: str) -> Config:
    """Return ``config`` as rewritten by the handler that its annotations select.

    The rewritten config is validated again.  If no handler is selected, or the config has no
    process, returns ``config`` unchanged.  Raises ConfigError if the handler does not exist or
    refuses the config, or if the result is invalid.
    """
    name, annotation = handler_name(config.get("annotations") or {})
    if name == NATIVE or not config.get("process"):
        return config

    changed = _load(name, annotation)(config, rootfs)
    check_schema(changed)
    validate(changed)
    return changed


def _load(name: str, annotation: str) -> Handler:
    """Return the handler function ``name``: a built-in handler, or one from an entry point.

    Raises ConfigError at the JSON path of ``annotation`` if there is no such handler, or it cannot
    be loaded.
    """
    if name == "wasm":
        return handle
    from importlib.metadata import entry_points

    installed = entry_points(group=GROUP)
    for entry in installed.select(name=name):
        try:
            handler: Handler = entry.load()
        except Exception as error:
            message = f'load the handler "{name}" ({entry.value}): {error}'
            raise ConfigError(where(annotation), message) from error
        return handler
    known = ", ".join(sorted({NATIVE, "wasm", *installed.names}))
    raise ConfigError(where(annotation), f'unknown handler "{name}"', f"available: {known}")
