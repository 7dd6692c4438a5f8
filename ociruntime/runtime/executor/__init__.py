"""Starting the C executor, speaking with it, and putting its failures into words."""
