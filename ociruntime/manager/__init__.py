"""The container manager: containers with names, each a pod with one app, over restarts of it."""
