"""Images as files: layouts, docker archives, ACIs, plain trees."""
