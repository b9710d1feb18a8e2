"""The scoreboard: results of several ports on one bundle, side by side."""
