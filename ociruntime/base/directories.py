"""Default directories of the programs for pods and containers."""

DATA = "/var/lib/ociruntime"
SYSTEM_CONFIG = "/usr/lib/ociruntime"
LOCAL_CONFIG = "/etc/ociruntime"
