"""Input pipelines: the right items, each once, in the expected order, batches and slots."""
