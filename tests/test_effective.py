"""What was asked for beside what happened: checks that need no compiler, on planted machines."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="the checks stand beside torch's code")

from bench_core.events import Activity  # noqa: E402
from bench_core.measuring.effective import CHECKS, Ran  # noqa: E402
from bench_core.spec import RunSpec, Variant, Workload  # noqa: E402
from tests import planted  # noqa: E402

EAGER = Variant()


def ran(
    machine: str = "CPU",
    variant: Variant = EAGER,
    workload: dict[str, Any] | None = None,
    environment: dict[str, Any] | None = None,
    **happened: Any,
) -> Ran:
    on_gpu = machine in planted.DEVICES
    spec = RunSpec(
        workload=Workload(**{"model": "small_cnn", **(workload or {})}),
        variant=variant,
        device="cuda:0" if on_gpu else "cpu",
    )
    return Ran(spec, planted.environment(machine, **(environment or {})), **happened)


def compiled(mode: str | None = None, **arguments: Any) -> Variant:
    return Variant(execution="compile", mode=mode, **arguments)


def test_who_asks_for_nothing_gets_no_finding() -> None:
    for machine in ("CPU", "T4", "A100"):
        assert [check(ran(machine)) for check in CHECKS.values()] == [None] * len(CHECKS)


@pytest.mark.parametrize(
    ("check", "case", "got", "met"),
    [
        pytest.param(
            "bf16 instructions",
            ran(workload={"precision": "bf16"}),
            "no bf16 instructions: emulated",
            False,
            id="bf16 on an AVX2 CPU",
        ),
        pytest.param(
            "bf16 instructions",
            ran(
                workload={"precision": "bf16"},
                environment={"cpu_isa": "AVX512, avx512_bf16, avx512_fp16, amx_bf16"},
            ),
            "avx512_bf16, amx_bf16",
            True,
            id="bf16 on a CPU that has it",
        ),
        pytest.param(
            "bf16 instructions",
            ran("T4", workload={"precision": "bf16"}),
            "emulated: compute capability 7.5",
            False,
            id="bf16 on a T4",
        ),
        pytest.param(
            "TF32",
            ran("T4", workload={"tf32": "on"}),
            "none: compute capability 7.5",
            False,
            id="TF32 on a T4",
        ),
        pytest.param(
            "TF32",
            ran("A100", workload={"tf32": "on"}),
            "on: compute capability 8.0",
            True,
            id="TF32 on an A100",
        ),
        pytest.param(
            "the autotuning of matrix products",
            ran("T4", compiled("max-autotune")),
            "off: 40 multiprocessors, it takes 68",
            False,
            id="max-autotune on a T4",
        ),
        pytest.param(
            "the autotuning of matrix products",
            ran("A100", compiled("max-autotune-no-cudagraphs")),
            "on",
            True,
            id="max-autotune on an A100",
        ),
        pytest.param(
            "CUDA graphs",
            ran("CPU", compiled("reduce-overhead")),
            "none: they need a GPU",
            False,
            id="CUDA graphs on a CPU",
        ),
        pytest.param(
            "CUDA graphs",
            ran("A100", compiled("max-autotune"), recorded_cuda_graphs=2),
            "2 recorded",
            True,
            id="CUDA graphs recorded",
        ),
        pytest.param(
            "CUDA graphs",
            ran(
                "A100",
                compiled("reduce-overhead"),
                activity=Activity(graphs=2, cudagraph_skips=1),
                recorded_cuda_graphs=1,
            ),
            "1 recorded, 1 skipped",
            False,
            id="CUDA graphs skipped",
        ),
        pytest.param(
            "CUDA graphs",
            ran("A100", compiled(backend="cudagraphs")),
            "none was recorded",
            False,
            id="CUDA graphs that nobody recorded",
        ),
        pytest.param(
            "what the backend made of the mode",
            ran("A100", compiled("max-autotune", backend="tvm")),
            "handed to backend tvm; only inductor is known to read it",
            False,
            id="a mode for another backend",
        ),
    ],
)
def test_a_check_says_what_was_got(check: str, case: Ran, got: str, met: bool) -> None:
    finding = CHECKS[check](case)
    assert finding is not None
    assert (finding.got, finding.met) == (got, met)


def test_bf16_is_not_judged_where_the_cpus_flags_cannot_be_read() -> None:
    on_a_mac = ran(workload={"precision": "bf16"}, environment={"os": "macOS-14.5"})
    assert CHECKS["bf16 instructions"](on_a_mac) is None


def test_a_compile_that_was_disabled_asked_for_nothing() -> None:
    assert CHECKS["what was compiled"](ran(variant=compiled(disable=True))) is None
