"""The image store: blobs by digest, and an index of images and their names."""
