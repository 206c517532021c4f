"""Shares of a profiled step, held against the profiler's own table of the same steps."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from bench_core.paths import CHECKOUT

# Run in a process of its own: nothing here imports torch. For each model the table of the
# profiler's own key_averages() (percent of self time by name) and our shares of the same profile.
PROFILE_BOTH = """
import json
import torch, torchvision
from torch import nn
from bench_core.events import covered
from bench_core.measuring import profile

class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.words = nn.Embedding(100, 64)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.recurrent = nn.LSTM(64, 32, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, words):
        signal, _ = self.recurrent(self.layers(self.words(words)))
        return self.head(signal.mean(1))

torch.manual_seed(0)
torch.set_num_threads(1)
cpu = torch.device("cpu")
labels = torch.zeros(4, dtype=torch.int64)
cases = {
    "resnet18": (torchvision.models.resnet18(), torch.randn(4, 3, 64, 64)),
    "transformer": (Transformer(), torch.randint(0, 100, (4, 32))),
}
answers = {}
for name, (model, inputs) in cases.items():
    optimizer = torch.optim.Adam(model.parameters())

    def step(inputs, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()

    step(inputs, labels)
    watched, _ = profile.watch(step, [(inputs, labels)] * 2, cpu)
    table = {row.key: row.self_cpu_time_total for row in watched.key_averages()}
    total = sum(table.values())
    update = next(row for row in watched.key_averages() if row.key.startswith("Optimizer.step#"))
    cleared = next(row for row in watched.key_averages() if row.key.startswith("Optimizer.zero"))
    answers[name] = {
        "table": {key: time / total for key, time in table.items()},
        "updates": (update.cpu_time_total + cleared.cpu_time_total) / total,
        "shares": profile.shares(watched.events(), cpu),
    }
joined, _ = profile.watch(lambda images, _: torch.cat([images, images]), [(inputs, labels)], cpu)
answers["joined"] = profile.shares(joined.events(), cpu)
answers["covered"] = covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.0, 1.5)])
print(json.dumps(answers))
"""


@cache
def answers() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROFILE_BOTH], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# Every row of the table that stands for work in a library, named one by one.
CONVOLUTIONS = (
    "aten::conv2d",
    "aten::convolution",
    "aten::_convolution",
    "aten::mkldnn_convolution",
    "aten::convolution_backward",
)
PRODUCTS = (
    "aten::linear",
    "aten::addmm",
    "aten::mm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::matmul",
    "aten::lstm",
    "aten::mkldnn_rnn_layer",
    "aten::mkldnn_rnn_layer_backward",
    "aten::scaled_dot_product_attention",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
)


@pytest.mark.parametrize(
    ("model", "kind", "rows", "least"),
    [
        ("resnet18", "convolution", CONVOLUTIONS, 0.1),
        ("resnet18", "matmul", PRODUCTS, 0.0001),
        ("transformer", "convolution", CONVOLUTIONS, 0.0),
        ("transformer", "matmul", PRODUCTS, 0.05),
    ],
)
def test_library_kernels_take_what_the_profilers_own_table_says(
    model: str, kind: str, rows: tuple[str, ...], least: float
) -> None:
    told = answers()[model]
    in_table = sum(told["table"].get(row, 0.0) for row in rows)
    assert in_table >= least
    assert told["shares"][kind] == pytest.approx(in_table, abs=1e-9)


@pytest.mark.parametrize("model", ["resnet18", "transformer"])
def test_the_update_is_the_optimizers_own_span_with_all_that_it_calls(model: str) -> None:
    told = answers()[model]
    assert told["shares"]["optimizer"] == pytest.approx(told["updates"], abs=1e-3)
    assert sum(told["shares"].values()) == pytest.approx(1)


def test_each_row_of_the_table_is_a_kind_that_a_reader_would_give_it() -> None:
    """What is neither a library's nor the update's, and takes a thousandth of the step or more."""
    for model in ("resnet18", "transformer"):
        told = answers()[model]
        bookkeeping = sum(
            share
            for row, share in told["table"].items()
            if "Backward0" in row or row.startswith(("autograd::", "torch::autograd::"))
        )
        assert told["shares"]["other"] >= bookkeeping
        pointwise = sum(
            told["table"].get(f"aten::{row}", 0.0)
            for row in ("native_batch_norm", "native_layer_norm", "relu", "threshold_backward")
        )
        assert told["shares"]["fusable"] >= pointwise > 0


def test_a_concatenation_is_work_that_compile_can_fuse_and_no_copy() -> None:
    assert answers()["joined"]["copies"] == 0.0
    assert answers()["joined"]["fusable"] > 0.9


def test_kernels_that_overlap_keep_the_device_busy_once() -> None:
    assert answers()["covered"] == 4.0
