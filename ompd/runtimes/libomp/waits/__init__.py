"""Barriers, locks and dependences that threads and tasks wait for, and the queues of tasks."""
