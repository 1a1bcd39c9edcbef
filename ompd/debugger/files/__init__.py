"""Which file is meant, and opening it: what the user names, debug files, servers, compression, what is kept on disk."""
