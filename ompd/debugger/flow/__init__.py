"""Follows the code of functions: the routines called on every way to a place, their first arguments, and the branches
on these ways.
"""
