"""Processors: their registers, calling conventions and machine code. Nothing else in ``ompd`` names one.

``architecture``, ``instructions``, ``getters`` and ``emulator`` define the data that describe a processor.
``processors`` lists the supported ones. A folder for each family has its tables.
"""
