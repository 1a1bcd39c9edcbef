"""Programs on the stub runtime, and what they wrote of its structures."""
