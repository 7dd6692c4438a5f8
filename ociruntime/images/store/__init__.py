"""The image store: blobs by digest, an index of images and their names."""
