"""LLVM's runtime and Intel's."""
