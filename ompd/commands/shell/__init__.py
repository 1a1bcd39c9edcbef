"""Code for the shell only: ``request``, which all its commands share, and commands outside the table."""
