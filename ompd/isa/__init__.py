"""Processors: their registers, calling conventions and machine code. No other part of ``ompd`` names a processor.

``architecture``, ``instructions``, ``getters`` and ``emulator`` define the data that describe a processor.
``processors`` lists the supported ones. Each processor family has a folder with its tables.
"""
