"""Default directories of ``ocipod`` and ``ocid``: data, system and local configuration."""

DATA = "/var/lib/ociruntime"
SYSTEM_CONFIG = "/usr/lib/ociruntime"
LOCAL_CONFIG = "/etc/ociruntime"
