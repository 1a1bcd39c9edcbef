"""Which library for debuggers may be loaded, what it needs, and how its process is confined (docs/security.md)."""
