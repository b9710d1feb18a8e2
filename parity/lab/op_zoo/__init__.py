"""Make the op zoo: some thousand calls of operators at their edges, and the right results."""
