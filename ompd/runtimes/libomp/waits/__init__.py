"""What threads and tasks wait for: barriers, locks, dependences; and the queues of tasks that wait for a thread."""
