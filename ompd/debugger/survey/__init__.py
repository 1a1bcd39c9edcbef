"""Facts about a process for `ompd doctor`: why modules are loaded, what their files lack, how large its stacks are."""
