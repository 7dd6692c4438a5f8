"""The image model: references, digests, manifests, limits, settings."""
