"""The command line, for machines without a browser. `run` needs no streamlit, pandas or scipy.

`run` queues an experiment like the page does and is the worker for it; when a worker is alive
already it follows that one. Exit codes: 0 all measured, 1 a run failed, 2 the call was wrong,
130 Ctrl-C.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
import tempfile
import typing
from pathlib import Path
from typing import Any, TextIO

import click

from bench_core import (
    capabilities,
    captures,
    comparison_json,
    doctor,
    estimates,
    file_imports,
    followed,
    graph_files,
    minimal_csv,
    pairing,
    presets,
    progress_bar,
    result_csv,
    step_file,
    terminal,
    worker,
)
from bench_core.capabilities import ProbeFailed
from bench_core.captured import PARTS
from bench_core.graph import STAGES
from bench_core.imported import said_in
from bench_core.lacks import lacks_of
from bench_core.measured import Measured, measure
from bench_core.paths import FolderError, data_dir
from bench_core.run import Run
from bench_core.run_options import experiment_of, spec_options
from bench_core.spec import (
    NAMED_MODELS,
    Execution,
    RunSpec,
    SpecError,
    Task,
    Workload,
    parse_variant,
)
from bench_core.stats import ScipyMissing
from bench_core.store import Store, StoreError
from bench_core.units import bytes_text, counted, duration_text


class Plain(click.ClickException):
    """An error as one sentence."""

    def __init__(self, message: object) -> None:
        super().__init__(str(message))


class Commands(click.Group):
    """Errors that the user can mend are sentences, not tracebacks."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (StoreError, FolderError, ScipyMissing, ProbeFailed, SpecError) as error:
            raise Plain(error) from None


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def main() -> None:
    """Does torch.compile pay off for this model on this machine, and from which epoch or call on?

    Results are kept in data/bench.db, or in the folder that BENCH_DATA names.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@main.command()
@click.option(
    "--preset",
    type=click.Choice(sorted(presets.PRESETS)),
    help="Start from this one; what else is given replaces its part. custom when left out: eager "
    "and compile, with the defaults below.",
)
@click.option(
    "--task",
    type=click.Choice(typing.get_args(Task)),
    help="Seconds of an epoch, or latencies of single calls; train when left out, "
    "and infer where all models are functions.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help=f"{', '.join(NAMED_MODELS)}, torchvision:vit_b_16, timm:NAME, file:X.py; to infer also "
    "function:sin_cos, function:X.py. May be given several times.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    help=f"{', '.join(typing.get_args(Execution))}; with arguments as "
    '\'compile:{"mode":"max-autotune","dynamic":false}\'',
)
@click.option(
    "--batch-size",
    "batch_sizes",
    multiple=True,
    type=int,
    help="Samples a step or a call, for a function the size n of its input; 16 when left out.",
)
@click.option(
    "--precision", "precisions", multiple=True, help="fp32, bf16, fp16; fp32 when left out."
)
@click.option(
    "--rung",
    "rungs",
    multiple=True,
    metavar="JSON",
    help="An arm that differs in more than its variant, in the place of --variant and --precision: "
    '\'{"workload":{"precision":"bf16"},"variant":{"execution":"compile"}}\', or of equal arms '
    '\'{"side":"A"}\'. The first one is the baseline.',
)
@click.option("--device", help="cpu, cuda:0, mps; the first GPU, or cpu, when left out.")
@click.option(
    "--cache",
    type=click.Choice(["cold", "warm", "off"]),
    help="State of the compile cache at the start of every compile and compile_frozen; cold when "
    "left out.",
)
@click.option(
    "--repeats", type=int, help="Runs of each variant, 3 when left out; fewer are a first look."
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every stored fact there, one row an epoch (of inference a block of calls).",
)
@click.option("--plan", is_flag=True, help="Show what would be run, and run nothing.")
@spec_options
def run(
    preset: str | None,
    csv_file: Path | None,
    plan: bool,
    **given: Any,
) -> None:
    """Measure a grid: models x batch sizes x precisions x variants x repeats.

    --model, --variant, --batch-size, --precision and --rung may be given several times.
    """
    if csv_file and not csv_file.parent.is_dir():
        raise click.UsageError(f"--csv {csv_file}: there is no folder {csv_file.parent}")
    try:
        device = given.pop("device") or _offered().best_device
        experiment = experiment_of(preset, device, given)
        runs = experiment.runs()
        lacking = dict.fromkeys(lack for spec in runs for lack in lacks_of(spec, _offered()))
    except SpecError as error:
        raise click.UsageError(str(error)) from None
    if lacking:
        raise click.UsageError("; ".join(lacking))
    if experiment.measurement.until_sure and not importlib.util.find_spec("scipy"):
        raise click.UsageError(
            "--until-sure needs an interval, and that needs scipy: pip install scipy"
        )
    with Store() as store:
        known = _known_runs(store)
        seconds = estimates.estimate_seconds(experiment, known)
        length = estimates.length_text(experiment, seconds)
        click.echo(f"{counted(len(runs), 'run')}, {length}", err=True)
        if plan:
            for number, spec in enumerate(runs, 1):
                click.echo(f"{number:3}  {progress_bar.described(spec, experiment.axis)}")
            return
        store.queue(experiment)
        try:
            followed.measure(store, experiment)
        except (KeyboardInterrupt, SystemExit):
            store.stop(experiment_id=experiment.id)
            click.echo("\nStopped. What was measured is kept.", err=True)
            _report(store, experiment.id, csv_file)
            code = 130
        else:
            code = 1 if _report(store, experiment.id, csv_file) else 0
        if store.queued():  # runs of others, who came while this folder was taken
            worker.ensure()
    sys.exit(code)


def _offered() -> capabilities.Capabilities:
    return capabilities.cached() or capabilities.probe()


def _known_runs(store: Store) -> list[estimates.KnownRun]:
    ended = store.runs(statuses=("done",))[-200:]
    epochs = store.epochs([run.number for run in ended])
    known = (estimates.known_run(run, epochs[run.number]) for run in ended)
    return [one for one in known if one]


def _report(store: Store, experiment_id: str, csv_file: Path | None) -> bool:
    """Print what was measured and write the CSV. True when a run failed."""
    runs = store.runs(experiment_id)
    if csv_file:
        _write_csv(store, runs, csv_file)
        click.echo(f"{csv_file}: {counted(len(runs), 'run')}", err=True)
    measured = _measured(store, runs)
    experiment = store.experiment(experiment_id)
    axis = pairing.Axis.of(experiment) if experiment else pairing.USUAL
    found = pairing.comparisons(measured, axis, _floors(store))
    terminal.print_runs(measured)
    terminal.print_answers(measured, found)
    if experiment:
        terminal.print_sureness(experiment, measured)
    if len({pairing.setting_of(run.spec, axis.names) for run in runs}) > 1:
        terminal.print_left_out(found, failed=False)  # those stand below their table
    return any(run.status == "failed" for run in runs)


def _write_csv(store: Store, runs: list[Run], file: Path) -> None:
    try:
        with file.open("w", newline="", encoding="utf-8") as opened:
            _write_runs(store, runs, opened)
    except OSError as error:
        raise Plain(
            f"{file} cannot be written ({error.strerror}); the results are kept in {data_dir()}: "
            "python -m bench_core export --csv FILE"
        ) from None


def _write_runs(store: Store, runs: list[Run], opened: TextIO) -> None:
    epochs = store.epochs([run.number for run in runs], steps=True)
    result_csv.write(opened, runs, epochs, store.experiments())


def _write_steps(store: Store, runs: list[Run], file: Path) -> int:
    """A run at a time: there are a thousand times as many steps as epochs."""
    one_by_one = ((run, store.epochs([run.number], steps=True)[run.number]) for run in runs)
    try:
        return step_file.write(file, one_by_one)
    except OSError as error:
        raise Plain(f"{file} cannot be written ({error.strerror})") from None


def _measured(store: Store, runs: list[Run]) -> list[Measured]:
    epochs = store.epochs([run.number for run in runs])
    return [measure(run, epochs[run.number]) for run in runs]


def _floors(store: Store) -> pairing.Floors:
    """How far equal arms may lie apart, by all that is stored: only the runs of such are read."""
    return pairing.noise_floors(_measured(store, store.equal_arms()))


@main.command(name="list")
@click.option("--experiment", "experiment_id", help="Only the runs of this experiment.")
def list_runs(experiment_id: str | None) -> None:
    """All stored runs."""
    with Store() as store:
        runs = store.runs(experiment_id)
        if not runs:
            click.echo("No run is stored. Measure one: python -m bench_core run --preset demo")
            return
        terminal.print_runs(_measured(store, runs))


@main.command()
@click.argument("run_reference", metavar="RUN")
def show(run_reference: str) -> None:
    """All that is known of one run, by number or id."""
    with Store() as store:
        run = store.run(run_reference)
        if run is None:
            raise Plain(
                f"there is no run {run_reference!r}; `python -m bench_core list` names them"
            )
        [one] = _measured(store, [run])
    click.echo(f"run {run.number} ({run.id}) of experiment {run.experiment_id}: {run.status}")
    if run.reason:
        click.echo(run.reason)
    if run.started_at and run.ended_at:
        click.echo(f"took {duration_text(run.ended_at - run.started_at)}")
    terminal.print_run_facts(run)
    terminal.print_series(one)
    if run.traceback:
        click.echo(f"\n{run.traceback}")
    if run.source and run.only_a_file_knows_it:
        click.echo(f"\nknown from {run.source.file} only: there is nothing to measure again")
    else:
        click.echo(f"\nmeasure it again:\n{run.spec.command}")


@main.command()
@click.argument("experiment_id", metavar="[EXPERIMENT]", required=False)
@click.option("--baseline", help="The variant that others are held against; eager when left out.")
@click.option(
    "--axis",
    "names",
    multiple=True,
    help="What the arms may differ in, variant when left out: a field of the workload such as "
    "precision, or side. May be given several times; then the arm measured first is the baseline. "
    "There is no ratio where an epoch or a call handles another number of samples.",
)
@click.option("--json", "as_json", is_flag=True)
def compare(
    experiment_id: str | None, baseline: str | None, names: tuple[str, ...], as_json: bool
) -> None:
    """Speedups with their interval: of one experiment, or of the whole store."""
    axis = _axis(names, baseline)
    with Store() as store:
        if experiment_id and store.experiment(experiment_id) is None:
            raise Plain(f"there is no experiment {experiment_id!r}; `show RUN` names a run's")
        measured = _measured(store, store.runs(experiment_id))
        floors = _floors(store)
    found = pairing.comparisons(measured, axis, floors)
    if as_json:
        click.echo(json.dumps(comparison_json.as_json(found), indent=2))
        return
    if not found.pairs:
        arms = f"{axis.baseline_name} and one other variant" if axis.baseline else "two arms"
        click.echo(f"Nothing to compare: it takes {arms} of the same")
        click.echo("workload on the same machine, both ended with a steady state.")
    terminal.print_comparisons(measured, found)
    terminal.print_left_out(found)


def _axis(names: tuple[str, ...], baseline: str | None) -> pairing.Axis:
    """Raises UsageError: a name that is no axis, or a variant where something else differs."""
    known = ("variant", "side", *Workload.model_fields)
    for name in names:
        if name not in known:
            raise click.UsageError(f"--axis must be one of {', '.join(known)}, got {name!r}")
    names = tuple(dict.fromkeys(names)) or ("variant",)
    if names != ("variant",):
        if baseline:
            raise click.UsageError(
                f"--baseline names a variant, so it goes with --axis variant alone, got --axis "
                f"{' --axis '.join(names)}; leave one of them out"
            )
        return pairing.Axis(names)
    try:
        return pairing.Axis.against(parse_variant(baseline or "eager").arm)
    except SpecError as error:
        raise click.UsageError(f"--baseline: {error}") from None


@main.command()
@click.argument("experiment_id", metavar="[EXPERIMENT]", required=False)
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option(
    "--steps",
    "steps_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The times of the training's single steps too, in a file of their own; --csv sums them "
    "up. Compressed where the name ends in .gz.",
)
@click.option("--columns", is_flag=True, help="Say what each column holds, and export nothing.")
def export(
    experiment_id: str | None, csv_file: Path | None, steps_file: Path | None, columns: bool
) -> None:
    """Stored runs as CSV, to standard output when no file is named.

    One row an epoch; of inference one row a block of iterations, with every latency. `import` on
    another machine reads it back, and the file of steps with it.
    """
    if columns:
        rows = [(column.name, column.unit, column.meaning) for column in result_csv.columns_table()]
        terminal.print_table(("column", "unit", "meaning"), rows)
        rows = [(column.name, column.unit, column.meaning) for column in result_csv.summary_table()]
        click.echo("\nin the summary of the Results page, one row a run\n")
        terminal.print_table(("column", "unit", "meaning"), rows)
        return
    with Store() as store:
        runs = store.runs(experiment_id)
        if not runs:
            meant = ""
            if experiment_id and experiment_id.endswith((".csv", ".csv.gz")):
                meant = f"to write a file say `--csv {experiment_id}`; "
            raise Plain(
                f"no such run is stored; {meant}`python -m bench_core list` shows what there is"
            )
        if csv_file:
            _write_csv(store, runs, csv_file)
            click.echo(f"{csv_file}: {counted(len(runs), 'run')}", err=True)
        else:
            _write_runs(store, runs, sys.stdout)
        if steps_file:
            count = _write_steps(store, runs, steps_file)
            click.echo(f"{steps_file}: {counted(count, 'step')}", err=True)


@main.command(name="import")
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--set",
    "said",
    multiple=True,
    metavar="KEY=VALUE",
    help="What no column states, or another value than the suggestion that is taken otherwise: "
    "machine=T4, precision=bf16, variant=compile, unit=ms, 'arm:COLUMN=eager', "
    "'column:COLUMN=ignore'; of a minimal CSV also any column that it lacks, for all rows: "
    "samples=1024. May be given several times.",
)
@click.option("--json", "as_json", is_flag=True)
@click.option("--template", is_flag=True, help="Write an example to fill in, and import nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be imported, and store nothing.")
def import_files(
    files: tuple[Path, ...], said: tuple[str, ...], as_json: bool, template: bool, dry_run: bool
) -> None:
    """Take in results: of this dashboard, of other tools, or a table of times.

    Each file whole or not at all. Exit code 1: a file was refused.
    """
    if template:
        click.echo(minimal_csv.TEMPLATE, nl=False)
        return
    if not files:
        raise click.UsageError("name a file, or take --template for an example to fill in")
    try:
        answers = said_in(said)
    except ValueError as error:
        raise click.UsageError(f"--set {error}") from None
    outcomes = []
    with Store() as store:
        try:
            for outcome in file_imports.bring(store, files, answers, dry_run):
                outcomes.append(outcome)
                if not as_json:
                    click.echo("\n".join(outcome.lines))
        except file_imports.NothingAsks as error:
            raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps([outcome.to_json() for outcome in outcomes], indent=2))
    sys.exit(1 if any(outcome.state == "refused" for outcome in outcomes) else 0)


@main.command()
@click.option("--model", required=True, help="As in `run`: resnet18, function:sin_cos, file:X.py.")
@click.option(
    "--task",
    type=click.Choice(typing.get_args(Task)),
    help="train, or infer for a function, when left out.",
)
@click.option("--variant", default="compile", show_default=True, help="As in `run`.")
@click.option("--batch-size", type=int, default=16, show_default=True)
@click.option("--image-size", type=int, default=224, show_default=True)
@click.option("--precision", default="fp32", show_default=True, help="fp32, bf16 or fp16.")
@click.option("--device", help="cpu, cuda:0; the first GPU, or cpu, when left out.")
@click.option(
    "--stage",
    "stages",
    type=click.Choice(["all", *STAGES]),
    multiple=True,
    default=("all",),
    show_default=True,
    help="Which graphs are drawn; may be given several times.",
)
@click.option("--whole", is_flag=True, help="Draw every operator, not one box a module.")
@click.option(
    "--cost", is_flag=True, help="Build the kernels too, and profile some steps (a minute or more)."
)
@click.option("--again", is_flag=True, help="Capture anew, though it was captured before.")
@click.option(
    "--out",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for DOT, SVG, code and summary.json.",
)
def graph(
    model: str,
    task: str | None,
    variant: str,
    device: str | None,
    stages: tuple[str, ...],
    whole: bool,
    cost: bool,
    again: bool,
    folder: Path,
    **workload: Any,
) -> None:
    """What torch.compile makes of a model, from TorchDynamo's graph to the generated code.

    No timed run is touched. SVG is laid out by Graphviz where its `dot` is installed
    (apt-get install graphviz), otherwise by this program.
    """
    workload["task"] = task or ("infer" if model.startswith("function:") else "train")
    try:
        spec = captures.essence(
            RunSpec(
                workload=Workload(model=model, samples=workload["batch_size"], **workload),
                variant=parse_variant(variant),
                device=device or _offered().best_device,
            )
        )
    except (SpecError, captures.CannotCapture) as error:
        raise click.UsageError(str(error)) from None
    if lacking := lacks_of(spec, _offered()):
        raise click.UsageError("; ".join(lacking))
    try:  # before minutes of capturing, not after them
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Plain(
            f"{folder} cannot be written ({error.strerror}); choose another folder for --out"
        ) from None
    if again:
        captures.delete(captures.key_of(spec))
    parts = PARTS if cost else PARTS[:1]
    try:
        capture = captures.take(spec, parts, lambda _, phase: click.echo(phase, err=True))
    except captures.CaptureBusy as error:
        raise Plain(error) from None
    wanted = [stage for stage in STAGES if "all" in stages or stage in stages]
    try:
        written = graph_files.write(capture, folder, wanted, whole=whole)
    except OSError as error:
        raise Plain(f"{error.filename or folder}: {error.strerror}") from None
    of_torch = f", torch {capture.torch}" if capture.torch else ""
    click.echo(f"{captures.title_of(capture)}{of_torch}")
    for line in graph_files.described(capture, wanted):
        click.echo(line)
    if capture.code:
        calls = counted(capture.extern_calls, "call")
        click.echo(f"{counted(capture.kernels, 'kernel')}, {calls} of libraries")
    click.echo(f"{counted(len(written), 'file')} in {folder}")
    for failure in capture.failures.values():
        click.echo(f"not all was reached: {failure.reason}", err=True)
    sys.exit(1 if capture.failures else 0)


@main.command()
def devices() -> None:
    """What torch can run on here."""
    offered = _offered()
    rows = [
        (device.id, device.name, bytes_text(device.memory_bytes), device.compute_capability or "")
        for device in offered.devices
    ]
    terminal.print_table(("device", "name", "memory", "compute capability"), rows)
    click.echo(f"torch {offered.torch}, {offered.cpu_affinity} of {offered.cpu_cores} cores usable")


@main.command(name="doctor")
def run_doctor() -> None:
    """Check what measuring needs, and say how to mend what is missing."""
    bad = False
    for check in doctor.checks():
        mark = click.style("ok  ", fg="green") if check.ok else click.style("bad ", fg="red")
        click.echo(f"{mark} {check.name}: {check.found}")
        if not check.ok:
            bad = True
            click.echo(f"     {check.fix}")
    sys.exit(1 if bad else 0)


@main.command(name="worker")
@click.option("--idle-seconds", default=worker.IDLE_SECONDS, show_default=True)
def run_worker(idle_seconds: float) -> None:
    """Measure what is queued, until there has been nothing to do for a while."""
    try:
        worker.serve(idle_seconds=idle_seconds)
    except worker.WorkerBusy as busy:
        click.echo(f"{busy}; nothing to do here", err=True)
