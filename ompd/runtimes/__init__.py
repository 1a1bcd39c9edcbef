"""The plugins: each folder has the code for one OpenMP runtime. It reads the target only through ``ompd.contract``."""
