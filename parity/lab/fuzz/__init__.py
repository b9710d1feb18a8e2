"""Mutate the cases of a zoo, and compare what a port and the reference readers make of them."""
