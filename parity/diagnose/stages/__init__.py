"""Find the mistake in one stage of a model: compute it in NumPy, rightly and in wrong ways."""
