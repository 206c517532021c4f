"""What a compiled run says about its compiler. One cold compile, in the fixture warm_caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bench_core.events import Activity, CompileStarted, CompileWindow, Epoch, Failed
from bench_core.spec import RunSpec, Variant
from tests.measuring_child import (
    CANONICAL,
    WARM_COMPILE,
    MeasuringChild,
    adopted,
    cache_environment,
    descendants,
    measured,
    wait_for,
    write_model,
)

BRANCHING = """
from torch import nn

class Branching(nn.Linear):
    def forward(self, images):
        logits = super().forward(images.flatten(1))
        if logits.sum().item() > 0:
            return logits * 2
        return logits

def build_model():
    return Branching(3 * 32 * 32, 10)
"""


def through_dynamo(workload: dict[str, Any] | None = None, **arguments: Any) -> RunSpec:
    """A compile that ends before Inductor, so that no test waits for a C++ compiler."""
    variant = Variant(**{"execution": "compile", "backend": "eager", **arguments})
    return RunSpec(workload=CANONICAL.changed(**workload or {}), variant=variant)


@pytest.fixture(scope="module")
def warm_run(warm_caches: Path, tmp_path_factory: pytest.TempPathFactory) -> MeasuringChild:
    environment = cache_environment(warm_caches, WARM_COMPILE)
    return measured(WARM_COMPILE, tmp_path_factory.mktemp("data"), **environment)


def test_a_warm_compile_is_one_graph_out_of_the_cache(warm_run: MeasuringChild) -> None:
    assert warm_run.process.returncode == 0, warm_run.log_text()
    [activity] = warm_run.said(Activity)
    assert activity.graphs == activity.frames_compiled == activity.frames_total == 1
    assert activity.cache_hits > 0 and activity.cache_misses == 0
    assert activity.autograd_cache_hits == 1
    assert activity.kernels is not None and activity.kernels > 0
    assert not activity.graph_breaks and not activity.recompiles


def test_compile_seconds_are_the_compilers_own_windows_in_the_first_epoch(
    warm_run: MeasuringChild,
) -> None:
    first, *later = warm_run.said(Epoch)
    live = warm_run.said(CompileWindow)
    assert len(live) == len(warm_run.said(CompileStarted)) == len(first.compile_windows) == 1
    [window] = first.compile_windows
    assert window.seconds == pytest.approx(first.compile_seconds)
    assert live[0].seconds == pytest.approx(window.seconds)
    assert 0 <= window.offset_seconds < first.wall_seconds - window.seconds
    assert window.seconds < first.step_seconds[0]
    assert [epoch.compile_seconds for epoch in later] == [0, 0]
    [activity] = warm_run.said(Activity)
    assert activity.compile_seconds == pytest.approx(first.compile_seconds)
    assert sum(activity.phase_seconds.values()) == pytest.approx(first.compile_seconds, rel=0.2)


def test_sigterm_after_a_compile_still_tells_what_the_compiler_did(
    warm_caches: Path, tmp_path: Path
) -> None:
    environment = cache_environment(warm_caches, WARM_COMPILE)
    with MeasuringChild(WARM_COMPILE, tmp_path, **environment) as child:
        child.say("go")
        child.read_until(CompileWindow)
        child.process.terminate()
        assert child.read_to_end() == 143
    assert child.said(Activity)[-1].graphs == 1


def test_a_graph_break_under_fullgraph_ends_the_run_and_names_the_line(tmp_path: Path) -> None:
    write_model(tmp_path, "branching.py", BRANCHING)
    child = measured(through_dynamo({"model": "file:branching.py"}, fullgraph=True), tmp_path)
    [failed] = child.said(Failed)
    assert failed.failure == "graph break"
    assert "fullgraph=True" in failed.reason and "branching.py:7" in failed.reason


def test_graph_breaks_are_counted_with_their_reason(tmp_path: Path) -> None:
    write_model(tmp_path, "branching.py", BRANCHING)
    child = measured(through_dynamo({"model": "file:branching.py"}), tmp_path, epochs=1)
    activity = child.said(Activity)[-1]
    assert activity.graphs > 1
    assert len(activity.graph_breaks) >= 1


def test_a_ragged_last_batch_is_reported_as_a_recompile(tmp_path: Path) -> None:
    spec = through_dynamo({"samples": 40, "drop_last": False})
    child = measured(spec, tmp_path, epochs=2)
    first, second = child.said(Epoch)
    assert len(first.compile_windows) == 2 and not second.compile_windows
    [recompile] = child.said(Activity)[-1].recompiles
    assert "size mismatch at index 0. expected 16, actual 8" in recompile


def test_the_evaluations_compile_is_kept_apart_from_the_trainings(tmp_path: Path) -> None:
    child = measured(through_dynamo({"evaluate": "variant"}), tmp_path, epochs=2)
    first, second = child.said(Epoch)
    assert len(first.compile_windows) == 1
    assert first.evaluation_compile_seconds is not None and first.evaluation_seconds is not None
    assert 0 < first.evaluation_compile_seconds < first.evaluation_seconds
    assert second.compile_seconds == second.evaluation_compile_seconds == 0
    assert first.accuracy is not None and 0 <= first.accuracy <= 1
    activity = child.said(Activity)[-1]
    assert (activity.graphs, activity.recompiles) == (1, ())
    assert activity.compile_seconds == pytest.approx(first.compile_seconds)


def test_a_disabled_compile_compiles_nothing_and_says_so(tmp_path: Path) -> None:
    child = measured(through_dynamo(backend="inductor", disable=True), tmp_path, epochs=1)
    [activity] = child.said(Activity)
    assert activity.graphs == activity.frames_compiled == 0


def test_an_option_that_inductor_lacks_is_refused_in_few_words(tmp_path: Path) -> None:
    spec = RunSpec(
        workload=CANONICAL, variant=Variant(execution="compile", options={"no_such_option": 1})
    )
    [failed] = measured(spec, tmp_path).said(Failed)
    assert failed.failure == "compile error"
    assert "Unexpected optimization option no_such_option" in failed.reason
    assert len(failed.reason) < 700


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("g++", "a C++ compiler"),
        pytest.param("openssl", "the program openssl", marks=pytest.mark.long),
    ],
)
def test_a_missing_tool_is_named_with_the_way_to_get_it(
    tmp_path: Path, lacking: str, said: str
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if lacking not in program.name and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    environment = cache_environment(tmp_path, WARM_COMPILE)
    for folder in environment.values():
        Path(folder).mkdir(parents=True)
    child = measured(WARM_COMPILE, tmp_path, PATH=str(tools), **environment)
    [failed] = child.said(Failed)
    assert failed.failure == "compiler missing", failed.reason
    assert said in failed.reason and "apt-get install" in failed.reason


@pytest.mark.long
def test_the_parents_death_in_the_middle_of_a_compile_takes_the_c_compiler_too(
    tmp_path: Path,
) -> None:
    environment = cache_environment(tmp_path, WARM_COMPILE)
    for folder in environment.values():
        Path(folder).mkdir(parents=True)
    with adopted(WARM_COMPILE, tmp_path, **environment) as family:

        def compiles() -> bool:
            return any("cc1plus" in process.name() for process in descendants(family.child))

        wait_for(compiles, seconds=200)
        assert not family.orphan()
