"""Pods on disk: directories, phases, locks, manifests, states of apps."""
