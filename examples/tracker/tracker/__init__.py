"""A tracker that shares scenes with others of its kind by leases."""
