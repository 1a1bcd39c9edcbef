"""Commands of which the target is a library, and no program."""
