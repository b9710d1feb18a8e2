"""The table of cases by port, made of several reports."""
