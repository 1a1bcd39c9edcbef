"""The other half: each folder knows one OpenMP runtime, and touches the target through ``ompd.contract`` alone."""
