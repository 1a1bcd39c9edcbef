"""Processors: their registers, calling conventions and machine code. Nothing else in ``ompd`` names one.

``architecture``, ``instructions``, ``getters`` and ``emulator`` say what has to be known of a processor, ``processors``
lists those that are known, and a folder for each family has its tables.
"""
