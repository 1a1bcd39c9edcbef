"""What plugins of several runtimes need, offered to those that ompd does not bring, too. No runtime is known here."""
