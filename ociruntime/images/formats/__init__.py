"""Images in local files: OCI layouts, docker archives, ACIs, plain directories and tarballs."""
