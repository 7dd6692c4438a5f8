"""Images in local files: OCI layouts, docker archives, ACIs, directories and tarballs."""
