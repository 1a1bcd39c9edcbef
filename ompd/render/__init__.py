"""Records to text or JSON; sees no target."""
