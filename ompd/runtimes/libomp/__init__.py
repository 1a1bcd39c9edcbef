"""The runtimes of LLVM and Intel.

``plugin`` has the runtime, which finds and keeps threads, ``teams`` and tasks. ``handles`` has the contract's handles,
which use ``stacks`` and ``waits``. ``layout`` has the places of members in structures.
"""
