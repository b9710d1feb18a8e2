"""Row 7: tables by scikit-learn; without its two splits, which are sets in JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from .seeded import draw


def make() -> dict[str, Any]:
    """Return input and output of each configuration."""
    # Columns of different spread, so that the components are in a definite order.
    x = draw("x", 100, 10).numpy() * np.linspace(3, 0.5, 10, dtype=np.float32)
    wide = x.astype(np.float64)
    category = np.array([[0], [1], [0], [2], [1]], np.float32)
    return {
        "pca_n4/input_X.bin": [x],
        "pca_n4/output_Y.bin": [PCA(4).fit_transform(wide)],
        "standard_scaler/input_X.bin": [x],
        "standard_scaler/output_Y.bin": [StandardScaler().fit_transform(wide)],
        "one_hot_encoder/input_X_indices.bin": [category],
        "one_hot_encoder/output_Y.bin": [OneHotEncoder(sparse_output=False).fit_transform(category)],
    }
