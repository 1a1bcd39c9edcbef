"""Where the members of a runtime's structures are, and how that is known."""
