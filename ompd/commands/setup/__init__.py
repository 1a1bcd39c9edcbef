"""What ompd puts into a user's account, and takes back: the words that shells complete, the page of the manual, and the
lines that load the commands into debuggers.
"""
