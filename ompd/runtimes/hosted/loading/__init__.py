"""Check a library for debuggers and the libraries that it needs, and confine its process (docs/security.md)."""
