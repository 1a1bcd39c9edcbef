"""One kind of target a file or folder: each gives memory, registers, threads and files, as ``base`` lists them."""
