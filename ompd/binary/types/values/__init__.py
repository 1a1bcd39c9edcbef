"""Values by their types, as text and as what JSON can hold."""
