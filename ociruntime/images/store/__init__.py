"""The image store: blobs by digest, and a database of images and their names."""
