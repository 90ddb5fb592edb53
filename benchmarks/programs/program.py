"""What the programs have in common."""

STEPS = 150
Loss = float  # which the program reads in each step
