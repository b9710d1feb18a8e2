"""The verbs, one a file: a short straight story on typed values that returns an exit code."""
