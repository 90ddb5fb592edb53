"""All stored results, renewed by one command."""
