"""The program's variables: by name, by type, and those of a frame."""
