"""Pods as directories: phases, locks, garbage; what a pod is made of and how it is prepared."""
