"""The page of ``ompd triage``: groups, waits across ranks, a map of ranks, and the tree of stacks.

``sections`` turns the answer into texts, tables and pictures, which ``tree``, ``ranks`` and ``jobs`` draw; ``page``
combines them. Nothing here sees a target.
"""
