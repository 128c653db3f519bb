"""Measurements that are run by hand; nothing here is part of the library."""
