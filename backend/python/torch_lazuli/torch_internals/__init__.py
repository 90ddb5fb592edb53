"""Torch's insides, in Python: what torch promises to nobody and Lazuli needs all the same.

Most of it replaces a function of torch by one that does the same for every other device. Each file
says which, and why; tests/torch_internals/ has a test of torch itself for each. What is like that
in C++ is in backend/torch_internals/.
"""
