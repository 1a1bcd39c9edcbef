"""A library on trial: single calls with any arguments, and callbacks that are made to fail. ``client`` plays
steps from outside, in a process for as many of them as it survives; ``worker`` makes them in there.
"""
