"""Computation graphs as data: which ONNX operators may be used, and how a stranger's graph is read."""
