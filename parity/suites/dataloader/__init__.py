"""The suite ``dataloader``: batches of a loader, one folder a case."""
