"""The talk between worker and measuring process, and the end of that process in every way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bench_core.events import (
    Activity,
    Aftermath,
    Environment,
    Epoch,
    Failed,
    Finished,
    PhaseStarted,
    Prepared,
)
from bench_core.paths import CHECKOUT
from tests.measuring_child import MeasuringChild, adopted, eager, measured, wait_for, write_model


@pytest.fixture(scope="module")
def eager_run(tmp_path_factory: pytest.TempPathFactory) -> MeasuringChild:
    return measured(eager(), tmp_path_factory.mktemp("data"), epochs=2)


def test_an_eager_run_reports_each_epoch_as_it_ends(eager_run: MeasuringChild) -> None:
    assert eager_run.process.returncode == 0, eager_run.log_text()
    [environment] = eager_run.said(Environment)
    assert environment.machine == "CPU"
    assert environment.cpu_cores == os.cpu_count()
    [prepared] = eager_run.said(Prepared)
    assert (prepared.steps_per_epoch, prepared.remainder, prepared.weights) == (4, 0, "random")
    epochs = eager_run.said(Epoch)
    assert [epoch.epoch for epoch in epochs] == [1, 2]
    for epoch in epochs:
        assert len(epoch.step_seconds) == 4
        assert epoch.samples == 64
        spent = sum(epoch.step_seconds) + epoch.data_wait_seconds
        assert spent == pytest.approx(epoch.wall_seconds, rel=0.01)
        assert epoch.compile_seconds == 0
        assert epoch.peak_memory_bytes is not None and epoch.peak_memory_bytes > 50_000_000
        assert epoch.loss is not None and 0 < epoch.loss < 20
    assert not eager_run.said(Activity), "eager compiles nothing"
    assert isinstance(eager_run.events[-1], Finished)


def test_after_stop_it_says_where_an_eager_steps_time_goes(eager_run: MeasuringChild) -> None:
    [aftermath] = eager_run.said(Aftermath)
    assert aftermath.loader_only_seconds is not None and aftermath.loader_only_seconds > 0
    assert aftermath.profiled_step_seconds is not None
    assert aftermath.shares is not None
    assert sum(aftermath.shares.values()) == pytest.approx(1)
    for kind in ("convolution", "matmul", "optimizer", "fusable"):
        assert aftermath.shares[kind] > 0


def test_phases_come_in_order_and_starting_comes_before_torch(eager_run: MeasuringChild) -> None:
    phases = [event.phase for event in eager_run.said(PhaseStarted)]
    assert phases == [
        *("starting", "environment", "model", "data"),
        *("epoch", "epoch", "after timing"),
    ]


def test_it_waits_for_each_go_deaf_to_ctrl_c_and_ends_with_its_input(tmp_path: Path) -> None:
    """The end of input means that nobody wants the part after the timing."""
    with MeasuringChild(eager(), tmp_path) as child:
        child.read_until(Prepared)
        child.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        said_at = time.time()
        child.say("go")
        assert child.read_until(Epoch).started_at >= said_at
        child.hang_up()
        assert child.read_to_end() == 0
    assert len(child.said(Epoch)) == 1
    assert not child.said(Aftermath)
    assert isinstance(child.events[-1], Finished)


def test_sigterm_in_an_epoch_ends_quietly_with_143(slow_model: Callable[[], Path]) -> None:
    data = slow_model()
    with MeasuringChild(eager(model="file:slow.py"), data) as child:
        child.say("go")
        child.read_until(PhaseStarted, phase="epoch")
        time.sleep(0.3)
        child.process.terminate()
        began = time.monotonic()
        assert child.read_to_end() == 143
    assert time.monotonic() - began < 2, "the worker kills after two seconds"
    assert not child.said(Failed)


def test_what_a_model_file_prints_goes_to_the_log_and_what_it_reads_is_empty(
    tmp_path: Path,
) -> None:
    write_model(
        tmp_path,
        "chatty.py",
        """
        import os, sys
        from torch import nn

        print("from python")
        os.system("echo from a child")
        assert sys.stdin.read() == ""

        def build_model():
            return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
        """,
    )
    child = measured(eager(model="file:chatty.py"), tmp_path, epochs=1)
    assert child.process.returncode == 0
    assert "from python" in child.log_text() and "from a child" in child.log_text()


def test_a_spec_that_cannot_be_read_is_a_failure_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench_core.measuring"],
        cwd=CHECKOUT,
        input=b'{"workload": {"model": "resnet18", "batch_size": 0}}\n',
        capture_output=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["failure"]) == (1, "error")
    assert "batch_size must be at least 1, got 0" in last["reason"]


def test_the_parents_death_takes_the_child_and_all_below_it(tmp_path: Path) -> None:
    """Also in the middle of a step, and a grandchild in a session of its own."""
    write_model(
        tmp_path,
        "forking.py",
        """
        import subprocess
        from torch import nn

        class Forking(nn.Linear):
            def forward(self, images):
                file = open(PATH, "w")
                process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
                print(process.pid, file=file, flush=True)
                process.wait()

        def build_model():
            return Forking(1, 1)
        """.replace("PATH", repr(str(tmp_path / "grandchild"))),
    )
    noted = tmp_path / "grandchild"
    with adopted(eager(model="file:forking.py"), tmp_path) as family:
        wait_for(lambda: noted.exists() and noted.read_text().strip() != "")
        grandchild = psutil.Process(int(noted.read_text()))
        assert family.child.is_running() and grandchild.is_running()
        assert not family.orphan()
    assert not grandchild.is_running()


def test_the_probe_prints_one_line_of_what_torch_offers(tmp_path: Path) -> None:
    write_model(tmp_path, "mine.py", "raise SystemExit('only a run may import me')")
    done = subprocess.run(
        [sys.executable, "-m", "bench_core.measuring", "probe"],
        cwd=CHECKOUT,
        env={**os.environ, "BENCH_DATA": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    [line] = done.stdout.splitlines()
    offer = json.loads(line)
    assert offer["devices"][0]["id"] == "cpu"
    assert {"name": "inductor", "proven": True} in offer["backends"]
    assert {"default", "max-autotune"} <= set(offer["modes"])
    assert offer["inductor_options"]["max_autotune"] == {"type": "bool", "default": False}
    assert {"resnet18", "vgg16"} <= set(offer["torchvision_models"])
    assert offer["model_files"] == ["mine.py"]


@pytest.fixture
def slow_model(tmp_path: Path) -> Callable[[], Path]:
    def write() -> Path:
        write_model(
            tmp_path,
            "slow.py",
            """
            import time
            from torch import nn

            class Slow(nn.Linear):
                def forward(self, images):
                    time.sleep(0.2)
                    return super().forward(images.flatten(1))

            def build_model():
                return Slow(3 * 32 * 32, 10)
            """,
        )
        return tmp_path

    return write
