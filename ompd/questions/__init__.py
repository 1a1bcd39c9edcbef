"""One file a question: handles in, records out."""
