"""A process that runs: stopped by ptrace for milliseconds, and let go."""
