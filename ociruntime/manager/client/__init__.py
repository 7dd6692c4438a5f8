"""The program ``ocictl``: what people say to the container manager; it knows ocid by HTTP alone."""
