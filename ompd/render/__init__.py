"""Records to text or JSON. Sees no target."""
