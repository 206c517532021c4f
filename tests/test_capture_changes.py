"""What changed between two captures: counts, kernels by what they compute, code as a diff."""

import pytest

from bench_core import capture_changes, captures
from bench_core.capture_changes import asked_otherwise, changes, code_diff, computes, fusions
from bench_core.captured import Kernel
from bench_core.spec import Measurement, Variant
from tests.planted_capture import BREAK, capture_spec, plant_capture


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHES", str(tmp_path))


def kernel(name: str, *operators: str, kind: str = "C++", part: str = "forward") -> Kernel:
    return Kernel(
        number=0, part=part, name=name, kind=kind, file="code/00.py", first_line=1, last_line=2,
        operators=operators,
    )  # fmt: skip


def test_counts_of_both_stand_side_by_side_with_the_difference():
    first = plant_capture(blocks=3)
    second = plant_capture(capture_spec(model="resnet50"), blocks=5, breaks=(BREAK,))
    rows = {row.what: row for row in changes(first, second)}
    assert (rows["Graphs"].first, rows["Graph breaks"].second) == (1, 1)
    dynamo = rows["TorchDynamo, captured: operators"]
    assert (dynamo.first, dynamo.second, dynamo.more) == (13, 21, 8)
    assert rows["Generated kernels"].more == 4
    # Of 8 nodes a block and direction fusion leaves 2.
    assert (rows["Joined by fusion"].first, rows["Joined by fusion"].second) == (36, 60)


def test_a_stage_that_one_capture_lacks_is_empty_and_one_that_both_lack_is_no_row():
    first = plant_capture()
    lacks = ("before_fusion", "after_fusion", "code")
    second = plant_capture(capture_spec(model="resnet50"), without=lacks)
    rows = {row.what: row for row in changes(first, second)}
    assert (rows["Joined by fusion"].second, rows["Joined by fusion"].more) == (None, None)
    assert rows["Generated kernels"].second is None
    assert "Generated kernels" not in {row.what for row in changes(second, second)}


def test_what_was_asked_for_differently_is_named():
    first = plant_capture()
    other = capture_spec(variant=Variant(execution="compile", dynamic=True), precision="bf16")
    second = plant_capture(other, torch="2.15.0")
    assert asked_otherwise(first, second) == [
        "precision fp32, then bf16",
        "dynamic unset, then True",
        f"torch {first.torch}, then 2.15.0",
    ]
    assert asked_otherwise(first, first) == []
    seeded = first.spec.changed(measurement=Measurement(weights="random", seed=7))
    third = plant_capture(seeded)
    assert asked_otherwise(first, third) == ["seed 0, then 7"]
    assert "seed 7" in captures.title_of(third) and captures.title_of(third) != captures.title_of(
        first
    )


def test_kernels_are_told_apart_by_what_they_compute_not_by_their_number():
    first = [kernel("cpp_fused_relu_0", "aten.relu.default"), kernel("cpp_fused_add_1", "add")]
    second = [
        kernel("cpp_fused_relu_7", "aten.relu.default"),
        kernel("cpp_fused_add_mul_1", "aten.add.Tensor", "aten.mul.Tensor"),
        kernel("cpp_fused_add_mul_2", "aten.add.Tensor", "aten.mul.Tensor"),
    ]
    found = fusions(first, second)
    assert [(one.operators, one.first, one.second) for one in found] == [
        ("add, mul", 0, 2),
        ("add", 1, 0),
    ]
    assert fusions(first, first) == []


def test_a_call_of_no_known_operator_goes_by_its_name():
    assert computes(kernel("extern_kernels.mm", kind="extern")) == "extern_kernels.mm"
    assert computes(kernel("k", "torch.ops.aten.mm.out", "operator.getitem")) == "mm, getitem"


def test_code_is_compared_line_by_line():
    first = captures.read_file(capture := plant_capture(), capture.code[0].file)
    found = code_diff(first, first.replace("tmp3 = in_ptr0[3]", "tmp3 = in_ptr1[3]", 1))
    assert found.text.startswith("--- first\n+++ second\n@@")
    assert "-    tmp3 = in_ptr0[3];\n+    tmp3 = in_ptr1[3];" in found.text
    assert found.left_out == ""
    assert code_diff(first, first).text == ""


def test_long_code_is_bounded_and_the_sentence_says_where(monkeypatch):
    monkeypatch.setattr(capture_changes, "MOST_COMPARED_LINES", 10)
    monkeypatch.setattr(capture_changes, "MOST_DIFF_LINES", 5)
    text = "\n".join(map(str, range(20)))
    found = code_diff(text, text.replace("1", "one"))
    assert found.text.count("\n") == 4
    assert "first 10 of up to 20 lines" in found.left_out
    assert "first 5 of" in found.left_out
