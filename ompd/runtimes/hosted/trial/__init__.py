"""A library on trial: single calls with any arguments, and callbacks that fail on request. ``client`` sends steps to
the library's process, as long as the process survives them. ``worker`` performs the steps in that process.
"""
