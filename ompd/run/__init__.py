"""``ompd run``: starts a command, watches it by /proc, and asks why if it does not go on."""
