"""Short programs in new processes."""
