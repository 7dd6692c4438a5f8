"""From an app of a manifest to its container's bundle, and the calls of the OCI runtime."""
