"""The manifest of a bundle, its layout on disk, and its tolerances."""
