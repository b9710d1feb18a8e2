"""Tools for people who make bundles: pins, audits, faults, the zoo, reference readers, scoreboard."""
