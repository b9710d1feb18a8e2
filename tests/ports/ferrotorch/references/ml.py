"""Row 7: tables by scikit-learn, and its two splits, whose members are free."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold, train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from .seeded import draw


def make() -> dict[str, Any]:
    """Return input and output of each configuration."""
    # Columns of different spread, so that the components are in a definite order.
    x = draw("x", 100, 10).numpy() * np.linspace(3, 0.5, 10, dtype=np.float32)
    wide = x.astype(np.float64)
    label = (np.arange(100) % 3).astype(np.float32)
    train, test = train_test_split(np.arange(100), test_size=0.2, random_state=42)
    folds = KFold(5, shuffle=True, random_state=42).split(np.arange(50))
    category = np.array([[0], [1], [0], [2], [1]], np.float32)
    return {
        "pca_n4/input_X.bin": [x],
        "pca_n4/output_Y.bin": [PCA(4).fit_transform(wide)],
        "standard_scaler/input_X.bin": [x],
        "standard_scaler/output_Y.bin": [StandardScaler().fit_transform(wide)],
        "one_hot_encoder/input_X_indices.bin": [category],
        "one_hot_encoder/output_Y.bin": [OneHotEncoder(sparse_output=False).fit_transform(category)],
        "kfold_5/reference/stdout.json": {
            "config": "kfold_5",
            "n_samples": 50,
            "n_splits": 5,
            "folds": [{"train": one.tolist(), "test": two.tolist()} for one, two in folds],
        },
        "train_test_split_80_20/input_X.bin": [x],
        "train_test_split_80_20/input_y.bin": [label],
        "train_test_split_80_20/reference/stdout.json": {
            "config": "train_test_split_80_20",
            "n_train": len(train),
            "n_test": len(test),
            "train_indices": train.tolist(),
            "test_indices": test.tolist(),
        },
    }
