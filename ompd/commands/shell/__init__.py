"""What the shell alone has: what all its commands share (``request``), and commands that are not in the table."""
