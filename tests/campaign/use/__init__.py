"""Inputs for programs of registries, and programs that use libraries."""
