"""Pods of flavour kvm: virtual machines, in which our guest agent starts the apps."""
