"""What a function's code must have done before it came to a place: which routines it called on every way there, and
with which first arguments; and which branches lead there.
"""
