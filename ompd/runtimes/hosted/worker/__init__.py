"""The program in which a library runs. To start quickly, it imports only the protocol from the rest of ompd, not the
modules for errors or records.
"""
