"""Unwind tables (``.eh_frame``, ``.debug_frame``) and the programs in them."""
