"""The container manager: named containers, each a pod with one app, that survive its restarts."""
