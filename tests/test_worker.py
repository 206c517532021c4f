"""Whatever ends a run, what was measured stays, nothing else does, and the queue goes on.

Real workers with real measuring processes; the compiles are cut short, or warm.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bench_core import worker
from bench_core.paths import CHECKOUT
from bench_core.run import Run
from bench_core.spec import Experiment, Measurement, Variant
from bench_core.store import Store

COMPILE = Variant(execution="compile")
ENDLESS = Measurement(epochs=100_000)


def small(*variants: Variant, **changed) -> Experiment:
    fields = {
        "models": ("small_cnn",),
        "batch_sizes": (16,),
        "variants": variants or (Variant(),),
        "repeats": 1,
        "workload": {"samples": 64, "image_size": 32, "pipeline": "cached"},
        "measurement": Measurement(epochs=3),
    }
    return Experiment(**{**fields, **changed})


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.delenv("BENCH_CACHES", raising=False)
    # Workers of one machine take turns: a developer's own is not waited for.
    monkeypatch.setenv("BENCH_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    return tmp_path


@pytest.fixture
def store(data):
    with Store() as opened:
        yield opened


@pytest.fixture
def start_worker(data):
    """Starts workers of this data folder; whatever is left of them is killed at the end."""
    started = []

    def start(idle_seconds: float = 1.0) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench_core", "worker", "--idle-seconds", str(idle_seconds)],
            cwd=CHECKOUT,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
    with Store() as opened:
        for run in opened.runs():
            for left in processes_of(run):
                left.kill()


def processes_of(run: Run) -> list[psutil.Process]:
    """Everything that a run started, wherever it has gone since: it bears the run's id."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("BENCH_RUN") == run.id and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(what: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_compiling(store: Store, number: int) -> Callable[[], bool]:
    """Inside the compiler, with a C++ compiler of its own already started."""

    def look() -> bool:
        run = store.run(number)
        assert run.status in ("queued", "running"), run.reason
        return bool(run.compiling_since) and any(
            "cc1plus" in process.name() or "g++" in process.name() for process in processes_of(run)
        )

    return look


def epochs_of(store: Store, number: int) -> int:
    return len(store.epochs([number])[number])


def test_a_queue_is_measured_to_its_end_and_the_worker_leaves(store, start_worker):
    store.queue(small(batch_sizes=(8, 16)))
    worker = start_worker()
    assert worker.wait(120) == 0
    runs = store.runs()
    assert [run.status for run in runs] == ["done", "done"]
    assert [epochs_of(store, run.number) for run in runs] == [3, 3]
    assert runs[0].environment.torch
    assert runs[0].prepared.steps_per_epoch == 8
    assert processes_of(runs[0]) == []


def test_a_second_worker_on_the_same_folder_exits_at_once(store, start_worker):
    store.queue(small(measurement=ENDLESS))
    start_worker()
    wait_for(lambda: store.run(1).status == "running")
    assert start_worker().wait(30) == 0
    assert store.run(1).status == "running"


def test_sigkill_of_the_worker_in_a_compile_leaves_no_process_and_the_next_takes_the_rest(
    store, start_worker, data
):
    experiment = small(Variant(), COMPILE, Variant(execution="compile", dynamic=False))
    store.queue(experiment)
    worker = start_worker()
    wait_for(is_compiling(store, 2), 150)
    worker.kill()
    worker.wait()
    wait_for(lambda: not processes_of(store.run(2)), seconds=5)

    store.stop(number=3)
    store.queue(small())
    assert start_worker().wait(120) == 0
    assert [run.status for run in store.runs()] == ["done", "interrupted", "stopped", "done"]
    assert epochs_of(store, 1) == 3
    assert "what was measured is kept" in store.run(2).reason
    assert list((data / "caches").glob("*")) == []


def test_sigkill_of_the_measuring_process_fails_that_run_by_the_signals_name(store, start_worker):
    store.queue(small(measurement=ENDLESS))
    store.queue(small())
    start_worker()
    wait_for(lambda: epochs_of(store, 1) >= 2)
    psutil.Process(store.run(1).child_pid).kill()
    wait_for(lambda: store.run(2).status == "done")
    failed = store.run(1)
    assert (failed.status, failed.failure) == ("failed", "killed")
    assert "killed by SIGKILL in phase epoch" in failed.reason
    assert epochs_of(store, 1) >= 2


def test_stop_in_a_compile_frees_the_machine_within_five_seconds(store, start_worker, data):
    store.queue(small(COMPILE))
    start_worker()
    wait_for(is_compiling(store, 1), 150)
    store.stop(number=1)
    wait_for(lambda: store.run(1).status == "stopped", seconds=5)
    assert processes_of(store.run(1)) == []
    wait_for(lambda: list((data / "caches").glob("*")) == [], seconds=5)


def test_stop_keeps_the_epochs_and_the_other_runs_go_on(store, start_worker):
    store.queue(small(measurement=ENDLESS))
    store.queue(small())
    start_worker()
    wait_for(lambda: epochs_of(store, 1) >= 2)
    store.stop(number=1)
    wait_for(lambda: store.run(2).status == "done")
    assert store.run(1).status == "stopped"
    assert epochs_of(store, 1) >= 2


def test_a_run_past_its_deadline_fails_and_says_so(store, start_worker):
    store.queue(small(measurement=Measurement(epochs=100_000, timeout_seconds=15)))
    start_worker()
    wait_for(lambda: store.run(1).status == "failed")
    assert store.run(1).failure == "timed out"
    assert "no end after 15 s (timeout_seconds)" in store.run(1).reason
    assert epochs_of(store, 1) > 0


def test_max_seconds_ends_a_run_politely_after_an_epoch(store, start_worker):
    store.queue(small(measurement=Measurement(epochs=100_000, max_seconds=1)))
    start_worker()
    wait_for(lambda: store.run(1).status == "done")
    run = store.run(1)
    assert "ended by max_seconds 1 after epoch" in run.reason
    assert run.aftermath is not None


def inferring(**measurement) -> Experiment:
    return small(
        batch_sizes=(1,),
        workload={"task": "infer", "image_size": 32},
        measurement=Measurement(**measurement),
    )


def latencies_of(store: Store, number: int) -> list[float]:
    return [one for block in store.epochs([number])[number] for one in block.step_seconds]


def test_inference_ends_after_exactly_its_iterations_and_keeps_every_latency(store, start_worker):
    store.queue(inferring(iterations=2345))
    assert start_worker().wait(120) == 0
    run = store.run(1)
    assert (run.status, run.reason) == ("done", None)
    latencies = latencies_of(store, 1)
    assert len(latencies) == 2345
    assert min(latencies) > 0
    blocks = store.epochs([1])[1]
    assert [block.epoch for block in blocks] == list(range(1, len(blocks) + 1))
    assert len(blocks) > 1, "it is told bit by bit"
    for block in blocks:
        assert block.samples == len(block.step_seconds)
        assert sum(block.step_seconds) <= block.wall_seconds
        assert block.loss is None
    assert run.aftermath is not None
    assert processes_of(run) == []


def test_stop_in_the_midst_of_inference_keeps_the_blocks(store, start_worker):
    store.queue(inferring(iterations=1_000_000))
    store.queue(inferring(iterations=20))
    start_worker()
    wait_for(lambda: epochs_of(store, 1) >= 2)
    store.stop(number=1)
    wait_for(lambda: store.run(1).status == "stopped", seconds=5)
    told = len(latencies_of(store, 1))
    assert told > 0
    assert processes_of(store.run(1)) == []
    wait_for(lambda: store.run(2).status == "done")
    assert (len(latencies_of(store, 1)), len(latencies_of(store, 2))) == (told, 20)


def test_max_seconds_ends_inference_politely_after_a_block(store, start_worker):
    store.queue(inferring(iterations=1_000_000, max_seconds=1))
    start_worker()
    wait_for(lambda: store.run(1).status == "done")
    run = store.run(1)
    count = len(latencies_of(store, 1))
    assert run.reason == f"ended by max_seconds 1 after iteration {count}"
    assert 0 < count < 1_000_000
    assert run.aftermath is not None


def test_inference_past_its_deadline_says_what_to_measure_less_of(store, start_worker):
    store.queue(inferring(timeout_seconds=0.5))
    start_worker()
    wait_for(lambda: store.run(1).status == "failed")
    assert store.run(1).failure == "timed out"
    assert store.run(1).reason.endswith("allow more time, or measure fewer iterations")


def test_a_deleted_running_run_does_not_go_on_unseen(store, start_worker):
    store.queue(small(measurement=ENDLESS))
    start_worker()
    wait_for(lambda: epochs_of(store, 1) >= 1)
    run = store.run(1)
    store._db.execute("DELETE FROM runs")  # as another program might
    wait_for(lambda: not processes_of(run), seconds=10)


def test_sigterm_of_the_worker_ends_the_run_and_keeps_it(store, start_worker):
    store.queue(small(measurement=ENDLESS))
    worker = start_worker()
    wait_for(lambda: epochs_of(store, 1) >= 1)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 143
    assert store.run(1).status == "stopped"
    assert processes_of(store.run(1)) == []


def test_a_warm_run_reuses_a_filled_cache_without_priming(
    store, start_worker, warm_caches, monkeypatch
):
    monkeypatch.setenv("BENCH_CACHES", str(warm_caches))
    store.queue(small(COMPILE.changed(cache="warm")))
    assert start_worker().wait(150) == 0
    run = store.run(1)
    assert run.status == "done", run.reason
    assert run.priming_seconds is None
    assert run.activity.cache_hits > 0
    assert run.activity.cache_misses == 0
    first, *later = store.epochs([1])[1]
    assert first.compile_seconds > 0
    assert all(epoch.compile_seconds == 0 for epoch in later)


def test_a_run_that_dies_after_its_last_epoch_is_done_and_says_what_is_missing(store, start_worker):
    slow_loader = {"samples": 2000, "image_size": 224, "pipeline": "on_the_fly"}
    measurement = Measurement(epochs=1)
    store.queue(small(workload=slow_loader, measurement=measurement))
    start_worker()
    wait_for(lambda: store.run(1).phase == "after timing", 150)
    psutil.Process(store.run(1).child_pid).kill()
    wait_for(lambda: store.run(1).status == "done")
    assert "all was timed that was asked for; what comes after the timing failed" in (
        store.run(1).reason
    )
    assert epochs_of(store, 1) == 1


def test_a_run_that_dies_after_its_seconds_were_up_is_done_too(store, start_worker):
    slow_loader = {"samples": 2000, "image_size": 224, "pipeline": "on_the_fly"}
    measurement = Measurement(epochs=50, max_seconds=0.1)
    store.queue(small(workload=slow_loader, measurement=measurement))
    start_worker()
    wait_for(lambda: store.run(1).phase == "after timing", 150)
    psutil.Process(store.run(1).child_pid).kill()
    wait_for(lambda: store.run(1).status == "done")
    assert store.run(1).reason.startswith("ended by max_seconds 0.1 after epoch 1; what comes")


def test_loader_workers_and_a_compile_get_along_on_a_long_path(
    store, start_worker, tmp_path, monkeypatch
):
    """Loader workers open sockets below TMPDIR, and a socket's path has a limit."""
    monkeypatch.setenv("BENCH_CACHES", str(tmp_path / ("a-long-name-" * 8)))
    workload = {"samples": 64, "image_size": 32, "loader_workers": 1}
    without_inductor = Variant(execution="compile", backend="aot_eager")
    store.queue(small(without_inductor, workload=workload))
    assert start_worker().wait(120) == 0
    assert store.run(1).status == "done", store.run(1).reason


def test_a_relative_data_folder_is_the_same_for_the_worker(store, data, monkeypatch):
    monkeypatch.chdir(data.parent)
    monkeypatch.setenv("BENCH_DATA", data.name)
    store.queue(small())
    worker.ensure()
    try:
        wait_for(lambda: store.run(1).status == "done")
    finally:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("BENCH_DATA") == str(data):
                    process.kill()


LEAVES_A_DAEMON = """
import os, time
def build_model():
    if os.fork() == 0:
        os.setsid()
        time.sleep(300)
        os._exit(0)
    os._exit(3)
"""


def test_an_end_is_noticed_though_something_holds_the_processs_output(
    store, start_worker, data, monkeypatch
):
    monkeypatch.setenv("BENCH_MODELS", str(data))
    (data / "daemon.py").write_text(LEAVES_A_DAEMON)
    store.queue(small(models=("file:daemon.py",)))
    start_worker()
    wait_for(lambda: store.run(1).status == "failed", seconds=60)
    assert "ended with code 3 in phase model" in store.run(1).reason
    wait_for(lambda: not processes_of(store.run(1)), seconds=5)


@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise KeyboardInterrupt"])
def test_a_model_file_that_ends_the_process_is_a_model_error(
    store, start_worker, data, monkeypatch, ending
):
    monkeypatch.setenv("BENCH_MODELS", str(data))
    (data / "ending.py").write_text(f"import sys\ndef build_model():\n    {ending}\n")
    store.queue(small(models=("file:ending.py",)))
    start_worker()
    wait_for(lambda: store.run(1).status == "failed", seconds=60)
    assert store.run(1).failure == "model error"
    assert "build_model() in" in store.run(1).reason


def test_settings_of_the_callers_shell_do_not_reach_a_run(store, start_worker, monkeypatch):
    monkeypatch.setenv("TORCH_LOGS", "nonsense that torch would refuse")
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    store.queue(small())
    assert start_worker().wait(60) == 0
    assert store.run(1).status == "done", store.run(1).reason


def test_two_data_folders_take_turns_on_one_machine(store, start_worker, tmp_path, monkeypatch):
    store.queue(small(measurement=ENDLESS))
    start_worker()
    wait_for(lambda: epochs_of(store, 1) >= 1)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "other"))
    with Store() as other:
        other.queue(small())
        worker = start_worker()
        try:
            wait_for(lambda: other.run(1).phase == "waiting")
            store.stop(number=1)
            wait_for(lambda: other.run(1).status == "done")
        finally:
            worker.kill()
            os.waitpid(worker.pid, 0) if worker.poll() is None else None
