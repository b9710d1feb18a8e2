"""Build and run the program of the port under test."""
