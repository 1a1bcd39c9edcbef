"""What tests of ``ompd conformance`` share."""
