"""What programs of registries are run on, and how libraries are used."""
