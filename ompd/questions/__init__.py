"""One file for each query: handles in, records out."""
