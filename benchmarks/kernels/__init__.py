"""How fast single fused computations run."""
