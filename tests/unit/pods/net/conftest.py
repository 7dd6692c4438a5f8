"""Hosts and pods for tests of networks: namespaces that end with the test."""

from tests.support.network_host import host, namespaces

__all__ = ("host", "namespaces")
