"""What `ompd doctor` needs of a process: why modules are there, what their files lack, how large its stacks are."""
