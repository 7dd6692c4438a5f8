"""Run a pod's apps in a virtual machine, whose guest agent (``csrc/guest``) starts them."""
