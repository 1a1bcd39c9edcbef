"""A thread of Python waits for the interpreter lock, which the first one keeps while it is in a function of C."""

import ctypes
import json
import os
import sys
import threading
import time


def say(name):
    words = {"tid": threading.get_native_id(), "name": name, "object": 0, "owner": 0}
    os.write(1, (json.dumps(words) + "\n").encode())


def work():
    say("waits")
    begun.set()
    while True:
        time.sleep(0)  # gives up the lock, and takes it again


sys.setswitchinterval(1000)  # so long one who waits for the lock sleeps at once
begun = threading.Event()
threading.Thread(target=work, daemon=True).start()
begun.wait()
say("main")
ctypes.PyDLL(None).pause()  # in no other way a function of C keeps the lock
