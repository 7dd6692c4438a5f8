"""Write the bundle of an app's container from the pod's manifest, and call the OCI runtime."""
