"""`torch.compile(model, backend="lazuli")`: graphs that Dynamo captures, recorded as a whole.

Recording op by op costs a step its Python code and a few microseconds an operation. Here Dynamo
captures a step's code once, and AOTAutograd makes a graph for forward and one for backward of it,
without mutation. The first call of a graph records its ops one by one. From then on a call records
them all at once (`backend/graphs/` in C++). What is recorded is part of the trace as ever, so
forward, backward and the optimizer's step are planned together, in the same caches.

Tensors of the backing device (the CPU's, or CUDA's where a GPU backs the device) are taken over
without a copy, and so are results: `host.py`.
"""
