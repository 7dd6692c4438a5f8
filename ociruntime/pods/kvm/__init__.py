"""Pods of flavour kvm: virtual machines, in which a guest of ours starts the apps."""
