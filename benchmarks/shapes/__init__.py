"""Steps whose shapes are new."""
