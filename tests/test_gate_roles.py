"""Every field of a spec and of an environment has a role, and the gate keeps to it.

Of the workload, the device and the machine all must agree unless it is the axis; the variant makes
the arms; the measurement blocks nothing. A field that is new stands in no table here and fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_core import pairing
from bench_core.events import Environment, Prepared
from bench_core.measured import Measured, measure
from bench_core.pairing import Axis
from bench_core.spec import Measurement, RunSpec, Variant, Workload
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, environment, planted_experiment

# Another valid value for each field, with what it brings along.
TRAIN: dict[str, dict[str, Any]] = {
    "model": {"model": "resnet50"},
    "dataset": {"dataset": "cifar10"},
    "dataset_path": {"dataset_path": "/other/images"},
    "pipeline": {"pipeline": "cached"},
    "loader_workers": {"loader_workers": 2},
    "samples": {"samples": 992},
    "drop_last": {"drop_last": False},
    "image_size": {"image_size": 160},
    "batch_size": {"batch_size": 8},
    "precision": {"precision": "bf16"},
    "tf32": {"tf32": "off"},
    "memory_layout": {"memory_layout": "channels_last"},
    "optimizer": {"optimizer": "sgd"},
    "learning_rate": {"learning_rate": 0.01},
    "evaluate": {"evaluate": "variant"},
    "threads": {"threads": 1},
}
INFER: dict[str, dict[str, Any]] = {
    "grad_mode": {"grad_mode": "inference_mode"},
    "compile_in_grad_mode": {"compile_in_grad_mode": True},
    "backward": {"backward": True, "grad_mode": "enabled"},
}
TASK = {"task": "infer"}
# Of these the other value makes an epoch handle another number of samples: an axis, but no ratio.
UNLIKE_WORK = ("drop_last", "batch_size")
# What a run starts from where the other value needs it.
NEEDS = {"dataset_path": {"dataset": "imagefolder", "dataset_path": "/images"}}
VARIANT: dict[str, Variant] = {
    "execution": Variant(execution="compile_frozen"),
    "backend": Variant(execution="compile", backend="aot_eager"),
    "mode": Variant(execution="compile", mode="max-autotune-no-cudagraphs"),
    "fullgraph": Variant(execution="compile", fullgraph=True),
    "dynamic": Variant(execution="compile", dynamic=False),
    "options": Variant(execution="compile", options={"epilogue_fusion": True}),
    "disable": Variant(execution="compile", disable=True),
}
MEASUREMENT: dict[str, dict[str, Any]] = {
    "epochs": {"epochs": 20},
    "iterations": {"iterations": 500},
    "repeat": {"repeat": 7},
    "seed": {"seed": 3},
    "weights": {"weights": "pretrained"},
    "max_seconds": {"max_seconds": 600.0},
    "timeout_seconds": {"timeout_seconds": 60.0},
    "label": {"label": "again"},
    "protocol": {"protocol": "paired"},
    "until_sure": {"until_sure": 2.0},
    "side": {"side": "B"},
}
# Facts of the environment: those that make another machine, by the name a person is told, ...
MUST_AGREE: dict[str, tuple[Any, str]] = {
    "machine": ("T4 of a colleague", "machine"),
    "machine_id": ("other", "machine"),
    "device_name": ("Tesla T4G", "device_name"),
    "torch": ("2.13.0", "torch"),
    "threads": (4, "threads in use"),
}
# ... and those that follow from it, are read anew in each process, or are of no effect on times.
MAY_DIFFER: dict[str, Any] = {
    "event": "environment",
    "compute_capability": "8.9",
    "multiprocessors": 46,
    "device_memory_bytes": 1,
    "cuda": "12.9",
    "cudnn": "9.11",
    "driver": "580.1",
    "cpu_name": "another",
    "cpu_cores": 8,
    "cpu_affinity": 8,
    "cpu_isa": "avx512",
    "memory_bytes": 1,
    "torchvision": "0.30",
    "python": "3.12",
    "os": "Linux 6.9",
    "tf32_convolution": False,
    "tf32_matmul": True,
    "compiler": "clang",
    "bench_version": "2",
}
WAY_OUT = "give it another valid value in the table of its role here, and a role to the gate"


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (Workload, {"task", *TRAIN, *INFER}),
        (Variant, {"cache", *VARIANT}),
        (Measurement, set(MEASUREMENT)),
        (RunSpec, {"workload", "variant", "measurement", "device"}),
        (Environment, {*MUST_AGREE, *MAY_DIFFER}),
    ],
)
def test_every_field_has_its_role_here(kind: Any, known: set[str]) -> None:
    new, gone = set(kind.model_fields) - known, known - set(kind.model_fields)
    assert not new, f"{kind.__name__} has new fields {sorted(new)}: {WAY_OUT}"
    assert not gone, f"{kind.__name__} has no fields {sorted(gone)} any more: remove them here"


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Measured]]]:
    """By task one eager and one compiled run of a workload, on one machine."""
    found = {}
    for task, workload in (("train", {}), ("infer", TASK)):
        folder: Path = tmp_path_factory.mktemp(task)
        with Store(folder / "bench.db") as store:
            planted_experiment(
                store, models=("resnet18",), repeats=1, machine="A100", workload=workload
            )
            epochs = store.epochs([1, 2])
            found[task] = [measure(run, epochs[run.number]) for run in store.runs()]
    yield found


def with_spec(one: Measured, **parts: Any) -> Measured:
    """The run with other fields in the parts of its spec: `workload={"batch_size": 8}`."""
    spec = one.run.spec
    changed = {
        name: getattr(spec, name).changed(**fields) if isinstance(fields, dict) else fields
        for name, fields in parts.items()
    }
    return replace(one, run=replace(one.run, spec=spec.changed(**changed)))


def with_environment(one: Measured, **facts: Any) -> Measured:
    changed = environment("A100").changed(**facts)
    return replace(one, run=replace(one.run, environment=changed))


def blocked(eager: Measured, compiled: Measured, name: str) -> None:
    """No ratio, both runs are left out with a reason, and the field is named."""
    found = pairing.comparisons([eager, compiled])
    assert not found.pairs
    assert sorted(run.number for left in found.left_out for run in left.runs) == [1, 2]
    assert all(left.reason for left in found.left_out)
    assert name in pairing.differences(eager.run, compiled.run)


WORKLOADS = [
    *(("train", name, fields) for name, fields in TRAIN.items()),
    *(("infer", name, fields) for name, fields in INFER.items()),
]


@pytest.mark.parametrize(("task", "name", "fields"), WORKLOADS)
def test_a_field_of_the_workload_blocks_and_is_named(
    arms: dict[str, list[Measured]], task: str, name: str, fields: dict[str, Any]
) -> None:
    eager, compiled = (with_spec(one, workload=NEEDS.get(name, {})) for one in arms[task])
    assert len(pairing.comparisons([eager, compiled]).pairs) == 1
    blocked(eager, with_spec(compiled, workload=fields), name)


@pytest.mark.parametrize(("task", "name", "fields"), WORKLOADS)
def test_a_field_of_the_workload_that_is_the_axis_makes_the_arms(
    arms: dict[str, list[Measured]], task: str, name: str, fields: dict[str, Any]
) -> None:
    before = with_spec(arms[task][0], workload=NEEDS.get(name, {}))
    after = with_spec(before, workload=fields)
    after = replace(after, run=replace(after.run, number=2))
    names = tuple(fields)
    if name in UNLIKE_WORK:
        assert not pairing.comparisons([before, after], Axis(names)).pairs
        assert {*pairing.differences(before.run, after.run, Axis(names))} == {pairing.DONE}
        return
    [pair] = pairing.comparisons([before, after], Axis(names)).pairs
    assert (pair.axis, pair.speedup.ratio) == (names, 1.0)
    assert pairing.differences(before.run, after.run, Axis(names)) == {}
    assert dict(pair.candidate.setting) == fields


def test_the_task_blocks_too(arms: dict[str, list[Measured]]) -> None:
    eager, compiled = arms["train"][0], arms["infer"][1]
    blocked(eager, compiled, "task")


@pytest.mark.parametrize("name", VARIANT)
def test_a_field_of_the_variant_makes_an_arm_of_its_own(
    arms: dict[str, list[Measured]], name: str
) -> None:
    eager, compiled = arms["infer"]
    other = with_spec(compiled, variant=VARIANT[name])
    other = replace(other, run=replace(other.run, number=3))
    pairs = pairing.comparisons([eager, compiled, other]).pairs
    assert [pair.candidate.variant for pair in pairs] == [COMPILE, VARIANT[name]]
    assert getattr(VARIANT[name], name) != getattr(COMPILE, name)


@pytest.mark.parametrize("cache", ["warm", "off"])
def test_the_cache_is_where_a_run_starts_and_makes_no_arm(
    arms: dict[str, list[Measured]], cache: str
) -> None:
    eager, compiled = arms["train"]
    other = with_spec(compiled, variant={"cache": cache})
    other = replace(other, run=replace(other.run, number=3))
    [pair] = pairing.comparisons([eager, compiled, other]).pairs
    assert len(pair.candidate.runs) == 2


@pytest.mark.parametrize("name", MEASUREMENT)
def test_a_field_of_the_measurement_never_blocks(
    arms: dict[str, list[Measured]], name: str
) -> None:
    eager, compiled = arms["train"]
    [other] = MEASUREMENT[name].values()
    assert getattr(eager.run.spec.measurement, name) != other
    changed = with_spec(compiled, measurement=MEASUREMENT[name])
    assert len(pairing.comparisons([eager, changed]).pairs) == 1
    assert pairing.differences(eager.run, changed.run) == {}


def test_another_device_blocks(arms: dict[str, list[Measured]]) -> None:
    eager, compiled = arms["train"]
    blocked(eager, with_spec(compiled, device="cuda:1"), "device")


@pytest.mark.parametrize("name", MUST_AGREE)
def test_a_fact_that_makes_another_machine_blocks(
    arms: dict[str, list[Measured]], name: str
) -> None:
    eager, compiled = arms["train"]
    other, told = MUST_AGREE[name]
    blocked(eager, with_environment(compiled, **{name: other}), told)


@pytest.mark.parametrize("name", MAY_DIFFER)
def test_a_fact_that_follows_from_the_machine_does_not_block(
    arms: dict[str, list[Measured]], name: str
) -> None:
    eager, compiled = arms["train"]
    changed = with_environment(compiled, **{name: MAY_DIFFER[name]})
    if name != "event":
        assert changed.run.environment != compiled.run.environment
    assert len(pairing.comparisons([eager, changed]).pairs) == 1


@pytest.mark.parametrize(
    ("field", "name"), [("parameters", "parameters"), ("model_sha256", "model file")]
)
def test_another_model_under_the_same_name_blocks(
    arms: dict[str, list[Measured]], field: str, name: str
) -> None:
    eager, compiled = arms["train"]
    other: Any = {"parameters": 7, "model_sha256": "b" * 64}[field]
    prepared = compiled.run.prepared.changed(**{field: other})
    assert isinstance(prepared, Prepared)
    blocked(eager, replace(compiled, run=replace(compiled.run, prepared=prepared)), name)


@pytest.mark.parametrize("sides", [(0,), (1,), (0, 1)])
def test_a_fact_that_one_source_does_not_state_blocks_and_one_that_neither_states_is_told(
    arms: dict[str, list[Measured]], sides: tuple[int, ...]
) -> None:
    eager, compiled = (
        replace(one, run=replace(one.run, unstated=("threads",) if side in sides else ()))
        for side, one in enumerate(arms["train"])
    )
    if len(sides) == 1:
        blocked(eager, compiled, "threads")
    else:
        [pair] = pairing.comparisons([eager, compiled]).pairs
        assert pair.unstated == ("threads",)


def test_the_arms_here_are_eager_and_compile(arms: dict[str, list[Measured]]) -> None:
    for pair in arms.values():
        assert [one.run.spec.variant.arm for one in pair] == [EAGER, COMPILE]
        assert len(pairing.comparisons(pair).pairs) == 1
