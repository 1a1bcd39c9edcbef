"""The program's variables: by name (``static``, ``choices``, ``names``), by type (``types``), those of a frame
(``locals``), and their values (``reader``). The process opens them when they are needed; queries use ``names``,
``choices`` and ``reader`` themselves.
"""
