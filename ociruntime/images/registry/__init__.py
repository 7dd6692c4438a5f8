"""Images from registries: HTTP, credentials, mirrors, interrupted downloads."""
