"""The engine of ``verify``: prepare a bundle, execute the port, evaluate its dumps."""
