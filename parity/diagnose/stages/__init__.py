"""Find the mistake in one stage of a model: compute it in NumPy, rightly and in wrong ways.

Operators have the names and arguments of ``torch``, ``torch.nn.functional`` and ``torch.nn``, whose
documentation defines them; keyword arguments after ``*`` select known mistakes.
"""
