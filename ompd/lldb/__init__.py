"""What only LLDB has.

``prompts`` is what LLDB calls of a command, and the commands of the table; ``commands`` are those that the shell does
not have; ``stops`` prints a line when the program stops. ``frames`` says which frames LLDB's own commands leave out,
``control`` runs a program under LLDB.

``ompd/lldb_script.py``, which users load, makes LLDB's commands of it; ``ompd.launch()`` and ``ompd.from_lldb()`` take
``control``. Nothing else imports from here.
"""
