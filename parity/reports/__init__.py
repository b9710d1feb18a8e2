"""Results in, words out: one module for each reader."""
