"""Damaged files: whatever becomes of a file on its way, it is refused in a sentence or taken whole.

Each case is a valid file after a few accidents, drawn from its number: case 4711 is the same file
on every machine.
"""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench_core import imports, result_csv, result_file, step_file
from bench_core.doubts import doubts_of_run
from bench_core.measured import measure
from bench_core.pairing import comparisons
from bench_core.spec import Variant
from bench_core.store import Store
from bench_core.table_file import BadFile, TableFile, open_table
from tests.planted import planted_experiment

CASES, CASES_IN_SHORT = 10_000, 300
MINIMAL = """device,model,variant,batch_size,epoch,epoch_seconds,machine
cuda:0,resnet18,eager,16,1,14.9,T4
cuda:0,resnet18,eager,16,2,14.2,T4
cuda:0,resnet18,compile,16,1,52.5,T4
cuda:0,resnet18,compile,16,2,13.1,T4
"""
TIMM = """model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count
resnet18,224,5120.25,49.99,256,11.69
"vit_small, 16",224,1800.5,142.18,256.0,22.05
"""
DYNAMO = """dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,\
eager_peak_mem,dynamo_peak_mem,calls_captured,unique_graphs,graph_breaks,unique_graph_breaks
cuda,BERT_pytorch,16,2.014,58.9,38.5,0.98,2.71,2.65,800,1,0,0
cuda,broken,0,0.0,0.0,0.0,0.0,0.0,0.0,0,0,0,0
"""
ARMS = """pt_version,model_name,batch_size,precision,hf_time,sdpa_no_compile_time,sdpa_compile_time
2.1,t5-small,1,fp16,0.51,0.42,0.31
2.1,opt-125m,1,fp16,0.91,NaN,0.62
"""
NUMBERS = (
    *("1e400", "-1", "nan", "inf", "0", "1_000", "0x10", "１２", "1,5", "1.5", "9" * 400, "1e-320"),
    *("-0.0", "9007199254740993", "1e308", "true", "", " ", "=1+1", "'", '"', "[", "[1e999]"),
    *("{}", "[" * 2000, '{"a": NaN}', '["\\ud800"]', "null", "\ufeff", "𝟙", "a\nb", "a\rb"),
)
WORDS = ("epoch", "model", "variant", "run_id", "", "seconds", "x" * 3000, "time_ms", "speedup")


def flip_bytes(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.choice((1, 1, 8, 64))):
        data[chance.randrange(len(data))] = chance.randrange(256)


def insert_bytes(chance: random.Random, data: bytearray) -> None:
    place = chance.randrange(len(data))
    data[place:place] = chance.choice((b"\0", b'"', b"\r", b"\n", b"\xff\xfe", b",", b"'", b"\x1f"))


def cut(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(len(data)) :]


def separators(chance: random.Random, data: bytearray) -> None:
    data[:] = data.replace(b",", chance.choice((b";", b"\t", b"|", b", ", b",,")))


def _lines(data: bytearray, change: Callable[[list[bytes]], None]) -> None:
    lines = bytes(data).splitlines(keepends=True)
    if lines:
        change(lines)
    data[:] = b"".join(lines)


def lose_line(chance: random.Random, data: bytearray) -> None:
    _lines(data, lambda lines: lines.pop(chance.randrange(len(lines))) and None)


def double_line(chance: random.Random, data: bytearray) -> None:
    _lines(data, lambda lines: lines.insert(chance.randrange(len(lines)), chance.choice(lines)))


def move_line(chance: random.Random, data: bytearray) -> None:
    _lines(data, lambda lines: chance.shuffle(lines))


def _cells(
    chance: random.Random, data: bytearray, change: Callable[[list[bytes]], None], line: int | None
) -> None:
    def in_line(lines: list[bytes]) -> None:
        place = chance.randrange(len(lines)) if line is None else line
        cells = lines[place].split(b",")
        change(cells)
        lines[place] = b",".join(cells)

    _lines(data, in_line)


def swap_cells(chance: random.Random, data: bytearray) -> None:
    def swap(cells: list[bytes]) -> None:
        one, other = chance.randrange(len(cells)), chance.randrange(len(cells))
        cells[one], cells[other] = cells[other], cells[one]

    _cells(chance, data, swap, None)


def change_cell(chance: random.Random, data: bytearray) -> None:
    def put(cells: list[bytes]) -> None:
        cells[chance.randrange(len(cells))] = chance.choice(NUMBERS).encode()

    _cells(chance, data, put, None)


def rename_column(chance: random.Random, data: bytearray) -> None:
    def put(cells: list[bytes]) -> None:
        cells[chance.randrange(len(cells))] = chance.choice(WORDS).encode()

    _cells(chance, data, put, 0)


def encode(chance: random.Random, data: bytearray) -> None:
    text = bytes(data).decode(errors="replace")
    data[:] = text.encode(chance.choice(("utf-16", "utf-8-sig", "utf-32", "cp1252")), "replace")


def pack(chance: random.Random, data: bytearray) -> None:
    data[:] = gzip.compress(bytes(data), mtime=0)


ACCIDENTS = (
    *(flip_bytes, insert_bytes, cut, separators, lose_line, double_line, move_line, swap_cells),
    *(change_cell, change_cell, change_cell, rename_column, encode, pack),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Valid files by name, `steps.csv` to the first of them."""
    folder = tmp_path_factory.mktemp("files")
    with Store(folder / "bench.db") as store:
        planted_experiment(store, repeats=1, epochs=3, workload={"samples": 64})
        planted_experiment(
            store, models=("resnet18",), machine="CPU", batch_sizes=(1,), repeats=1, iterations=10,
            variants=(Variant(), Variant(execution="onednn_graph")), workload={"task": "infer"},
        )  # fmt: skip
        planted_experiment(store, repeats=1, measured=0)
        runs = store.runs()
        epochs = store.epochs([run.number for run in runs], steps=True)
        text = io.StringIO(newline="")
        result_csv.write(text, runs, epochs, store.experiments())
        step_file.write(folder / "steps.csv", [(run, epochs[run.number]) for run in runs])
    return {
        "results.csv": text.getvalue().encode(),
        "steps.csv": (folder / "steps.csv").read_bytes(),
        "minimal.csv": MINIMAL.encode(),
        "benchmark-infer-amp-nhwc-pt291-cu128-rtx4090-dynamo.csv": TIMM.encode(),
        "inductor_torchbench_bfloat16_inference_cuda_performance.csv": DYNAMO.encode(),
        "arms.csv": ARMS.encode(),
    }


def damaged(case: int, files: dict[str, bytes]) -> tuple[str, bytes]:
    chance = random.Random(case)
    name = chance.choice([*files])
    data = bytearray(files[name])
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        if data:
            chance.choice(ACCIDENTS)(chance, data)
    return name, bytes(data)


def take_in(store: Store, table: TableFile) -> bool:
    """Look at it and import it, whatever is asked; nothing may stay of one that is refused."""
    answers: dict[str, str] = {}
    for _ in range(3):  # an answer may raise the next question
        look = imports.look(store, table, answers)
        for question in look.questions:
            first = question.choices[0] if question.choices else "cuda:0"
            answers[question.key] = question.suggestion or first
    look = imports.look(store, table, answers)
    before = store.run_ids(), store.imports()
    try:
        imported = imports.take_in(store, table, answers)
    except BadFile:
        assert look.state in ("refused", "asks"), look
        assert (store.run_ids(), store.imports()) == before
        return False
    if imported.record is None:  # a header and no row
        assert (look.new, store.run_ids(), store.imports()) == (0, *before)
        return False
    assert (look.state != "refused", look.new) == (True, imported.new), look
    _use(store)
    assert store.undo_import(imported.record.id) == imported.new
    assert (store.run_ids(), store.imports()) == before
    return True


def _use(store: Store) -> None:
    """What came in must bear what pages and exports do with it."""
    runs = store.runs()
    assert not {"queued", "running"} & {run.status for run in runs}
    epochs = store.epochs([run.number for run in runs], steps=True)
    measured = [measure(run, epochs[run.number]) for run in runs]
    comparisons(measured)
    for one in measured:
        doubts_of_run(one)
    result_csv.write_summary(io.StringIO(), measured)
    text = io.StringIO(newline="")
    result_csv.write(text, runs, epochs, store.experiments())
    again = open_table("again.csv", text.getvalue().encode())
    assert len(list(result_file.read(again, {}))) == len(runs)


def steps_of(data: bytes, results: bytes) -> bool:
    try:
        runs = result_file.read(open_table("results.csv", results), {})
        list(step_file.with_steps(runs, open_table("steps.csv", data)))
    except BadFile:
        return False
    return True


def check(cases: Iterator[int], files: dict[str, bytes], folder: Path) -> None:
    taken = refused = 0
    with Store(folder / "bench.db") as store:
        for case in cases:
            name, data = damaged(case, files)
            try:
                if name == "steps.csv":
                    good = steps_of(data, files["results.csv"])
                else:
                    good = take_in(store, open_table(name, data))
            except BadFile:  # it cannot be opened
                good = False
            except Exception as error:
                raise AssertionError(f"case {case}, {name}: {error!r}") from error
            taken, refused = taken + good, refused + (not good)
    assert taken > refused / 20, "hardly a file was good: nothing was tried"
    assert refused > taken / 20, "hardly a file was bad: nothing was tried"


def test_a_damaged_file_is_refused_or_taken_whole(files: dict[str, bytes], tmp_path: Path) -> None:
    check(iter(range(CASES_IN_SHORT)), files, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_damaged_files(files: dict[str, bytes], tmp_path: Path) -> None:
    check(iter(range(CASES_IN_SHORT, CASES)), files, tmp_path)
