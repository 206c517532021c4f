"""What torch offers here: asked once, kept, and held against what a run asks for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench_core import capabilities
from bench_core.capabilities import (
    Backend,
    Capabilities,
    Device,
    InductorOption,
    ProbeFailed,
)
from bench_core.lacks import lacks_of
from bench_core.spec import RunSpec, Variant, Workload

HERE = Capabilities(
    torch="2.14.1",
    torchvision="0.29.1",
    devices=(Device(id="cpu", name="Xeon"),),
    backends=(Backend(name="inductor"), Backend(name="eager"), Backend(name="tvm", proven=False)),
    modes=("default", "max-autotune"),
    inductor_options={
        "max_autotune": InductorOption(type="bool", default=False),
        "triton.cudagraphs": InductorOption(type="bool", default=False),
        "cpp.threads": InductorOption(type="int", default=-1),
        "compile_threads": InductorOption(type="int | None", default=None),
        "cpp.cxx": InductorOption(type="tuple[None, str]", default=[None, "g++"]),
        "cuda.arch": InductorOption(type="Literal['70', '80']", default="70"),
    },
    torchvision_models=("resnet18", "resnet34", "resnext50_32x4d"),
    model_files=("unet.py",),
    compiler="/usr/bin/g++",
    compiler_version="12.2",
    openssl="/usr/bin/openssl",
    cpu_name="Xeon",
    cpu_cores=2,
    cpu_affinity=2,
    cpu_isa="avx512",
    memory_bytes=16_000_000_000,
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    return tmp_path


def a_run(model: str = "resnet18", device: str = "cpu", **variant: object) -> RunSpec:
    arguments = {"execution": "compile", **variant} if variant else {}
    return RunSpec(workload=Workload(model=model), variant=Variant(**arguments), device=device)


def test_a_run_that_fits_raises_no_objection() -> None:
    assert lacks_of(a_run(), HERE) == []
    assert lacks_of(a_run(options={"max_autotune": True, "cpp.threads": 2}), HERE) == []
    assert lacks_of(a_run("file:unet.py"), HERE) == []
    assert lacks_of(a_run("small_cnn"), HERE) == []


def test_an_unknown_backend_names_those_near_it() -> None:
    [said] = lacks_of(a_run(backend="inducktor"), HERE)
    assert "no compile backend 'inducktor'" in said
    assert "did you mean inductor?" in said


def test_an_unknown_option_names_those_near_it() -> None:
    [said] = lacks_of(a_run(options={"max_autotun": True}), HERE)
    assert "no option 'max_autotun'; did you mean max_autotune?" in said


def test_an_option_of_the_wrong_type_says_which_one_it_takes() -> None:
    [said] = lacks_of(a_run(options={"max_autotune": "yes"}), HERE)
    assert said == 'Inductor\'s option max_autotune takes bool (default false), got "yes"'


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({"cpp.threads": True}, True),  # to Python True is an int
        ({"cpp.threads": 1.0}, False),
        ({"compile_threads": None}, True),
        ({"max_autotune": None}, False),
        ({"cuda.arch": "80"}, True),
        ({"cuda.arch": "90"}, False),
        ({"cpp.cxx": ["g++"]}, True),  # no type that JSON has: torch may judge it
    ],
)
def test_an_option_is_held_against_its_type(options: dict[str, object], fits: bool) -> None:
    assert (lacks_of(a_run(options=options), HERE) == []) == fits


def test_dashes_in_an_option_are_read_as_torch_reads_them() -> None:
    assert lacks_of(a_run(options={"max-autotune": True}), HERE) == []


def test_a_mode_of_another_torch_is_refused() -> None:
    [said] = lacks_of(a_run(mode="lite"), HERE)
    assert "torch 2.14.1 has no mode 'lite'; it has default, max-autotune" in said


def test_a_device_that_is_not_here_is_refused() -> None:
    [said] = lacks_of(a_run(device="cuda:0"), HERE)
    assert said == "device cuda:0 is not here; torch sees cpu"


def test_an_unknown_torchvision_model_names_those_near_it() -> None:
    [said] = lacks_of(a_run("torchvision:resnet43"), HERE)
    assert "no classification model 'resnet43'; did you mean resnet34" in said


def test_a_model_file_that_is_not_in_the_folder_is_refused(own_folder: Path) -> None:
    [said] = lacks_of(a_run("file:unett.py"), HERE)
    assert f"no model file unett.py in {own_folder / 'models'}" in said
    assert "did you mean unet.py?" in said


def test_a_compile_for_the_cpu_needs_a_compiler_and_openssl() -> None:
    bare = HERE.changed(compiler=None, openssl=None)
    said = lacks_of(a_run(mode="default"), bare)
    assert ["g++" in said[0], "openssl" in said[1]] == [True, True]
    assert lacks_of(a_run(), bare) == []
    assert lacks_of(a_run(backend="eager"), bare) == []


def test_nothing_is_cached_before_the_first_probe() -> None:
    assert capabilities.cached() is None
    assert capabilities.failure() is None


def test_the_answer_is_asked_for_again_when_a_model_file_is_added(own_folder: Path) -> None:
    before = capabilities.cache_key()
    (own_folder / "models").mkdir()
    (own_folder / "models" / "unet.py").write_text("")
    assert capabilities.cache_key() != before


def test_an_answer_of_an_older_form_counts_as_none(own_folder: Path) -> None:
    (own_folder / "capabilities").mkdir()
    (own_folder / "capabilities" / f"{capabilities.cache_key()}.json").write_text('{"torch": "1"}')
    assert capabilities.cached() is None


def test_a_failed_probe_says_the_last_line_of_the_log_and_the_way_out(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = own_folder / "checkout"
    (checkout / "bench_core" / "measuring").mkdir(parents=True)
    (checkout / "bench_core" / "measuring" / "__init__.py").write_text(
        "raise ImportError('libcudart.so.12 is missing')"
    )
    monkeypatch.setattr(capabilities, "CHECKOUT", checkout)
    with pytest.raises(ProbeFailed, match="libcudart.so.12 is missing; mend that or reinstall"):
        capabilities.probe()
    assert "libcudart" in (capabilities.failure() or "")


def test_a_probe_tells_what_torch_offers_and_is_kept() -> None:
    found = capabilities.probe()
    assert capabilities.cached() == found
    assert found.devices[0].id == "cpu" or found.best_device != "cpu"
    assert lacks_of(a_run(), found) == []
    assert lacks_of(a_run(options={"max_autotune": True}, device=found.best_device), found) == []
    [said] = lacks_of(a_run(options={"max_autotune": "yes"}, device=found.best_device), found)
    assert "takes bool" in said
    again = time.perf_counter()
    assert capabilities.probe() == found
    assert time.perf_counter() - again < 1  # no second process


def test_two_callers_start_one_probe(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = own_folder / "started"
    checkout = own_folder / "checkout"
    (checkout / "bench_core" / "measuring").mkdir(parents=True)
    (checkout / "bench_core" / "measuring" / "__init__.py").write_text("")
    (checkout / "bench_core" / "measuring" / "__main__.py").write_text(
        "import time\n"
        f"open({str(started)!r}, 'a').write('one ')\n"
        "time.sleep(1)\n"
        f"print({HERE.to_json()!r})\n"
    )
    monkeypatch.setattr(capabilities, "CHECKOUT", checkout)
    for _ in range(5):
        capabilities.start_probe()
        time.sleep(0.1)
    deadline = time.monotonic() + 20
    while capabilities.cached() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert capabilities.cached() == HERE
    assert started.read_text() == "one "


def test_reading_capabilities_imports_neither_torch_nor_streamlit() -> None:
    code = (
        "import sys; import bench_core.capabilities, bench_core.presets; "
        "print([name for name in ('torch', 'streamlit', 'plotly', 'pandas', 'scipy') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
