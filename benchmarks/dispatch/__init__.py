"""What one op costs before its kernel runs."""
