"""Programs that measure one thing in a fresh process, and print it."""
