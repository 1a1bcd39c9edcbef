"""Between the two halves: all that a plugin of a runtime may import, and what it has to give. No input or output."""
