"""On a GPU: a step as one CUDA graph, and batches drawn ahead."""
