"""The program in which a library runs. Beside the protocol it imports nothing of ompd that takes time: neither errors
nor records.
"""
