"""The commands of ``ocipod``; no other package below ``pods`` prints anything."""
