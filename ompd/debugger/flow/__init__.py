"""Follows the code of functions: which routines one has called on every way to a place, with which first arguments, and
which branches lead there.
"""
