"""Pods of flavour kvm: virtual machines in which a guest agent (``csrc/guest``) starts the apps."""
