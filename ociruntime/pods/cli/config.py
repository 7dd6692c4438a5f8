"""``ocipod config``."""

from __future__ import annotations

from ociruntime.commandline.output import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print the merged settings as JSON, without secrets."""
    import json

    from ociruntime.images.model.settings import Settings
    from ociruntime.images.registry import auth as registry_auth
    from ociruntime.images.trust import policy, trusted_keys

    settings = Settings(context.system_config, context.local_config, context.user_config)
    rules = policy.load_policy(settings)
    document = {
        "directories": {
            "data": context.directory,
            "system": context.system_config,
            "local": context.local_config,
            "user": context.user_config,
        },
        "mirrors": settings.mirrors(),
        "limits": vars(settings.limits()),
        "credentials": registry_auth.hosts(settings),
        "policy": {
            "default": policy.shown(rules.default),
            "prefixes": {name: policy.shown(rule) for name, rule in rules.prefixes.items()},
        },
        "trustedKeys": trusted_keys.overview(settings),
    }
    pretty = arguments.flags.get("pretty-print", True)
    return write(json.dumps(document, indent=2 if pretty else None) + "\n")
