"""What an image is: references, digests, manifests, limits, settings."""
