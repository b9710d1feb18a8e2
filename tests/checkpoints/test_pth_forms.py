"""Every form in which ``torch.save`` writes a tensor is located in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity.checkpoints import locate_tensors
from parity.checkpoints.location import view_elements
from parity.tensors.dtypes import DTYPES

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


FORMS = ("plain", "parameter", "with-state", "subclass", "v1", "nested", "legacy", "list")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_tensor_is_located(form: str, tmp_path: Path) -> None:
    view = torch.arange(24.0).reshape(4, 6).T[1:]
    tensor: Any = view
    if form in ("parameter", "with-state"):
        tensor = torch.nn.Parameter(view)
    if form in ("with-state", "subclass"):
        tensor.note = 1
    if form == "v1":
        tensor = _RebuildV1(view)
    state = {"epoch": 3, "model": {"fc": {"w": tensor}}} if form == "nested" else {"w": tensor}
    content: Any = [state, 1] if form == "list" else state
    if form == "legacy":  # storages of other widths before and behind
        content = {"a": torch.ones(3).half(), **state, "z": [torch.ones(3).double()]}
    torch.save(content, tmp_path / "a.pth", _use_new_zipfile_serialization=form != "legacy")

    found = locate_tensors(tmp_path, tmp_path / "a.pth")
    if form == "legacy":
        for name, dtype in (("a", DTYPES["F16"]), ("z.0", DTYPES["F64"])):
            values = view_elements(found[name], dtype)
            assert values is not None
            assert values.tolist() == [1, 1, 1]
        found = {"w": found["w"]}
    names = {"nested": {"model.fc.w", "fc.w", "w"}, "list": {"0.w", "w"}}.get(form, {"w"})
    assert found.keys() == names
    assert {(raw.shape, raw.stride, raw.storage_offset) for raw in found.values()} == {
        ((5, 4), (1, 6), 1)
    }


class _RebuildV1:
    """A tensor as ``torch._utils._rebuild_tensor`` gets it, without ``requires_grad``."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __reduce__(self) -> Any:
        _, args = self.tensor.__reduce_ex__(2)
        return torch._utils._rebuild_tensor, args[:4]


def test_a_shorter_name_is_given_where_one_tensor_alone_has_it(tmp_path: Path) -> None:
    one, other = torch.ones(2), torch.ones(3)
    torch.save({"model": {"w": one, "b": one}, "ema": {"w": other}, "b": other}, tmp_path / "a.pth")

    found = locate_tensors(tmp_path, tmp_path / "a.pth")
    assert found.keys() == {"model.w", "model.b", "ema.w", "b"}
    assert found["b"].shape == (3,)

    torch.save({"module.fc.w": one}, tmp_path / "a.pth")
    assert locate_tensors(tmp_path, tmp_path / "a.pth").keys() == {"module.fc.w", "fc.w", "w"}

    torch.save({"." * 100_000: one}, tmp_path / "a.pth")
    assert len(locate_tensors(tmp_path, tmp_path / "a.pth")) < 50


@pytest.mark.parametrize(("name", "dtype"), [("complex64", "C64"), ("complex128", "C128")])
def test_complex_numbers_are_located(name: str, dtype: str, tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2, dtype=getattr(torch, name))}, tmp_path / "a.pth")
    (raw,) = locate_tensors(tmp_path, tmp_path / "a.pth").values()
    assert (raw.type_name, raw.stop - raw.start) == (dtype, int(dtype[1:]) // 4)
