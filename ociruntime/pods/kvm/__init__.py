"""Pods of flavour kvm: a virtual machine whose guest agent (``csrc/guest``) starts the apps."""
