"""Runs that nobody measured, by hypothesis: every field of every model, odd texts, odd numbers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import reject
from hypothesis import strategies as st
from pydantic import JsonValue

from bench_core.events import (
    Activity,
    Aftermath,
    CompileWindow,
    Environment,
    Epoch,
    Failure,
    Phase,
    Prepared,
    StepSummary,
)
from bench_core.imported import ImportedRun
from bench_core.run import Run, Status
from bench_core.source import Source, Stated
from bench_core.spec import Experiment, Frozen, Measurement, RunSpec, SpecError, Variant, Workload

ODD_TEXTS = (
    *("", "=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'quoted", "'", "''", " x ", "NaN", "0012"),
    *('a "quote", a comma; a semicolon', "two\nlines", "two\r\nlines", "a lone \r in it"),
    *(
        "µ × 你好 🚀",
        "\N{ZERO WIDTH NO-BREAK SPACE}x",
        "1,5",
        "true",
        "[]",
        "\x85 \x0b",
        "x" * 40_000,
    ),
)
# Neither half a character nor NUL, which no text file holds.
letters = st.characters(exclude_categories=("Cs",), exclude_characters="\x00")
texts = st.sampled_from(ODD_TEXTS) | st.text(letters, max_size=20)
names = st.text(letters, min_size=1, max_size=20)
ids = st.text("0123456789abcdef", min_size=12, max_size=12)
seconds = st.sampled_from((1e-9, 0.1 + 0.2, 1 / 3, 1e9)) | st.floats(1e-9, 1e6)
numbers = st.just(0.0) | seconds
counts = st.integers(0, 2**53)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: counts,
    float: numbers,
    bool: st.booleans(),
    NoneType: st.none(),
    Any: json_values,
    JsonValue: json_values,
}


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type."""
    if annotation in SIMPLE:
        return SIMPLE[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (UnionType, Union):
        return st.one_of([of(one) for one in reversed(inner)])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        return st.lists(of(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(texts, of(inner[1]), max_size=2)
    return filled(annotation)


def filled(kind: type[Frozen], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Models with a value in every field."""
    fields = {
        name: of(field.annotation) for name, field in kind.model_fields.items() if name != "event"
    }
    return st.builds(kind, **{**fields, **given})


variants = st.sampled_from(
    (
        *({}, {"execution": "compile"}, {"execution": "compile", "mode": "max-autotune"}),
        *({"execution": "compile", "cache": "off", "dynamic": False, "fullgraph": True},),
        *({"execution": "compile", "backend": "=eager", "disable": True, "cache": "warm"},),
        *({"execution": name} for name in ("compile_frozen", "export_aot", "jit_trace_frozen")),
    )
) | st.fixed_dictionaries(
    {
        "execution": st.just("compile"),
        "options": st.dictionaries(names.filter("freezing".__ne__), json_values, max_size=2),
    }
)
MODELS = (
    *("resnet18", "timm:vit_a.b-c", "file:=ün 'x', \"y\".py", "torchbench:BERT", 'other:=1+1,"a"'),
    *("function:sin_cos", "yolov7"),
)


@st.composite
def specs(draw: st.DrawFn) -> RunSpec:
    """By hand where fields depend on each other."""
    workload = {
        "task": draw(st.sampled_from(("train", "infer"))),
        "model": draw(st.sampled_from(MODELS)),
        "batch_size": draw(st.integers(1, 64)),
        "precision": draw(st.sampled_from(("fp32", "bf16", "fp16"))),
        "tf32": draw(st.sampled_from(("default", "off", "on"))),
        "memory_layout": draw(st.sampled_from(("contiguous", "channels_last"))),
        "threads": draw(st.none() | st.integers(1, 64)),
        **draw(
            st.sampled_from(
                (
                    {},
                    {"dataset": "imagefolder", "dataset_path": "=a/'b' ü", "pipeline": "cached"},
                    {"pipeline": "on_the_fly", "loader_workers": 3, "samples": 77},
                    {"drop_last": False, "samples": 100, "optimizer": "sgd", "evaluate": "variant"},
                    {"learning_rate": 1e-300, "image_size": 64},
                    {"backward": True, "compile_in_grad_mode": True},
                    {"grad_mode": "inference_mode"},
                )
            )
        ),
    }
    measurement = draw(
        filled(
            Measurement,
            epochs=st.integers(1, 100_000),
            iterations=st.integers(1, 1_000_000),
            repeat=st.integers(1, 1000),
            seed=st.integers(0, 2**32 - 1),
            max_seconds=st.none() | seconds,
            timeout_seconds=st.floats(1e-9, 86400),
            label=texts.map(lambda text: text[:200]),
            until_sure=st.none() | st.floats(0.1, 50),
        )
    )
    try:
        return RunSpec(
            workload=Workload(**workload),
            variant=Variant(**draw(variants)),
            measurement=measurement,
            device=draw(st.sampled_from(("cpu", "cuda:0", "cuda:13", "mps"))),
        )
    except SpecError:
        reject()


@st.composite
def runs(draw: st.DrawFn) -> ImportedRun:
    """A run as a store might hold it, with its epochs, and with its experiment sometimes."""
    spec = draw(specs())
    status = draw(st.sampled_from(get_args(Status)))
    times = st.none() | numbers
    count = draw(st.sampled_from((0, 1, 3)))
    stated = draw(
        st.none()
        | filled(
            Stated, steady_seconds=seconds, peak_memory_bytes=st.none() | st.integers(1, 2**53)
        )
    )
    # Whatever is timed is timed on some machine.
    place = filled(Environment, machine=names)
    run = Run(
        number=draw(st.integers(1, 10**6)),
        id=draw(ids),
        experiment_id=draw(ids),
        spec=spec,
        status=status,
        failure=draw(st.sampled_from(get_args(Failure))) if status == "failed" else None,
        reason=draw(st.none() | texts),
        traceback=None,
        phase=draw(st.none() | st.sampled_from(get_args(Phase))),
        phase_epoch=None,
        phase_since=None,
        compiling_since=None,
        created_at=draw(numbers),
        started_at=draw(times),
        ended_at=draw(times),
        child_pid=None,
        child_created=None,
        priming_seconds=draw(times),
        environment=draw(place if count or stated else st.none() | place),
        prepared=draw(st.none() | filled(Prepared)),
        activity=draw(st.none() | filled(Activity)),
        aftermath=draw(st.none() | filled(Aftermath)),
        round=draw(st.none() | texts),
        protocol_note=draw(st.none() | texts),
        unstated=draw(st.lists(texts, max_size=3).map(tuple)),
        source=draw(st.none() | filled(Source)),
        stated=stated,
    )
    epochs = [draw(epochs_of(spec, number)) for number in range(1, count + 1)]
    experiment = None
    if draw(st.booleans()):
        experiment = Experiment(
            id=run.experiment_id,
            preset=draw(texts),
            models=("resnet18",),
            batch_sizes=(16,),
            variants=(Variant(),),
            measurement=Measurement(label=draw(texts)[:200]),
        ).to_json()
    return ImportedRun(run, epochs, experiment)


def epochs_of(spec: RunSpec, number: int) -> st.SearchStrategy[Epoch]:
    some = st.lists(seconds, min_size=1, max_size=6).map(tuple)
    infers = spec.workload.task == "infer"
    steps = st.fixed_dictionaries({"step_seconds": some})
    if infers:
        windows = filled(CompileWindow, iteration=st.none() | st.just(0))
        steps |= st.fixed_dictionaries({"step_seconds": some, "device_seconds": some})
    else:
        windows = filled(CompileWindow, iteration=st.none())
        steps |= st.fixed_dictionaries({"step_seconds": st.just(()), "steps": filled(StepSummary)})
        steps |= st.just({"step_seconds": ()})
        steps |= some.map(lambda times: {"step_seconds": times, "device_seconds": times})
    plain = filled(
        Epoch,
        epoch=st.just(number),
        wall_seconds=seconds,
        loss=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        accuracy=st.none() | st.floats(0, 1),
        compile_windows=st.lists(windows, max_size=2).map(tuple),
        step_seconds=st.just(()),
        device_seconds=st.just(()),
        steps=st.none(),
    )
    return st.tuples(plain, steps).map(lambda two: two[0].changed(**two[1]))


def several() -> st.SearchStrategy[list[ImportedRun]]:
    """Runs of one file: no id twice, nor a number."""
    found = st.lists(runs(), min_size=1, max_size=3, unique_by=lambda one: one.run.id)
    return found.map(lambda ones: list(itertools.starmap(_numbered, enumerate(ones, 1))))


def _numbered(number: int, one: ImportedRun) -> ImportedRun:
    return replace(one, run=replace(one.run, number=number))
