"""Which item of a data set a delivered row is; order and membership of runs."""
