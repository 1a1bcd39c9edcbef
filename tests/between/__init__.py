"""A program that is stopped wherever its thread is on the way from one team to another."""
