"""The plugin of ``libomp_stub``: a third-party one, of which ompd itself knows nothing (docs/plugins.md)."""
