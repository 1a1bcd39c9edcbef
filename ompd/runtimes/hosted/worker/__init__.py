"""The program in which a library runs. It speaks with its host by :mod:`ompd.runtimes.hosted.protocol` alone, and
imports nothing else of ompd that takes time: neither errors nor records.
"""
