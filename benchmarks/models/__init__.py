"""How fast whole models train and infer."""
