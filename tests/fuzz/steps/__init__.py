"""What a program's next statement may be: each step is a function that adds to a `Builder`."""
