"""The plugin of ``libomp_stub``. It is third-party: ompd itself has no code for that runtime (docs/plugins.md)."""
