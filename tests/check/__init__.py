"""What tests of ``ompd check`` share."""
