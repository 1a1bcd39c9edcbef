"""GNU's runtime."""
