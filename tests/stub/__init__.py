"""Programs on the stub runtime, and the runtime's structures that they wrote."""
