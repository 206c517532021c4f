"""One run's card: where it ran, what was asked for against what happened, how to measure it again.

Everything that may come from a user's file or machine is escaped or drawn as plain text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import streamlit as st

from bench_core.chart_frame import CONFIG
from bench_core.chart_titles import epochs_title
from bench_core.doubts import doubts_of_run
from bench_core.events import Activity
from bench_core.figures import Line, epoch_seconds
from bench_core.imports import FAMILIES
from bench_core.inference_tables import MADE_BY
from bench_core.measured import Arm, Measured
from bench_core.run import NOT_STATED, Run
from bench_core.spec import COMPILES, EXECUTION_WORDS, Measurement
from bench_core.units import bytes_text, count_text, counted, rate_text, seconds_text
from pages.parts.comparison_words import parity_text
from pages.parts.compiler_choice import capture_link
from pages.parts.doubt_words import doubt_line
from pages.parts.log_tail import log_tail
from pages.parts.text import plain

CHART_HEIGHT = 220
# What a line of the specification says, each part with the fields that it tells.
Parts = Sequence[tuple[tuple[str, ...], str]]


def run_card(one: Measured) -> None:
    run, work = one.run, one.run.spec.workload
    facts = [work.model, run.spec.variant.name, run.machine, *run.words]
    with st.container(border=True, gap="small"):
        title = " · ".join(plain(fact) for fact in facts if fact)
        label = run.spec.measurement.label
        imported = " :gray-badge[:material/upload_file: imported]" if run.import_id else ""
        st.markdown(
            f"**Run {run.number}** :gray[{title}]{imported}"
            + (f"  \n{plain(label)}" if label else "")
        )
        if run.status == "failed":
            _failure(run)
        elif run.reason:
            st.markdown(f"{run.status.capitalize()}: {plain(run.reason)}")
        if run.protocol_note:
            st.markdown(f":gray[{plain(run.protocol_note[0].upper() + run.protocol_note[1:])}.]")
        if one.epochs and one.steady.reason:
            st.markdown(f":gray[No steady state.] {plain(one.steady.reason)}")
        for line in verdicts(run):
            st.markdown(line)
        for doubt in doubts_of_run(one):
            # These two stand in the lines above, where the run came as far as that.
            if doubt.kind not in ("not got", "not checked") or not run.aftermath:
                st.markdown(doubt_line(doubt))
        if one.epochs:
            _chart(one)
        left, right = st.columns(2, gap="small")
        with left:
            if run.import_id:
                st.caption("Where it comes from")
                _pairs(dict(source(run)), "The file that this run was read from")
            st.caption("Asked for and what happened")
            _pairs(dict(effective(run)), "What was asked for and what happened")
            if run.environment:
                st.caption("Where it ran")
                _pairs(dict(environment(run)), "Where it ran")
        with right:
            if work.is_foreign:
                st.caption("This model is known from its file only: it cannot be measured here.")
            else:
                st.caption(
                    "Measure one like it; what its file does not state is this program's default"
                    if run.by_another_tool
                    else "Measure it again"
                )
                spec = run.spec.changed(measurement=Measurement()) if run.stated else run.spec
                st.code(spec.command, language="bash", wrap_lines=True)
            if not run.import_id:
                capture_link(run.spec)
            if one.unit == "iteration" and one.epochs:
                st.caption("Latencies")
                _pairs(dict(latencies(one)), "Percentiles of the latencies, and the first answer")
            st.caption("What was measured")
            _pairs(dict(specification(run)), "What was measured")
            if run.activity:
                _reasons(run.activity)
            _log(run)


def _pairs(rows: dict[str, str], alt: str) -> None:
    st.table(rows, border="horizontal", hide_header=True, alt=alt)


def source(run: Run) -> Iterator[tuple[str, str]]:
    """Of an imported run: its file, its place there, and what its rows do not say themselves."""
    if run.source:
        line = f", from line {run.source.line}" if run.source.line else ""
        yield "File", plain(run.source.file) + line
        titles = {family.key: family.title for family in FAMILIES}
        yield "Read as", plain(titles.get(run.source.family, run.source.family))
        if run.source.variant:
            yield "Variant there", plain(run.source.variant)
        for name, whence in run.source.inferred.items():
            words = name.replace("_", " ")
            whose = "" if whence.startswith(NOT_STATED) else " from"
            yield f"{words[0].upper()}{words[1:]}{whose}", plain(whence)
    stated, unit = run.stated, run.spec.workload.unit
    if stated:
        yield "Stated", f"{seconds_text(stated.steady_seconds)} an {unit}, without single times"
        if stated.start_seconds is not None:
            yield "Stated start-up", f"{seconds_text(stated.start_seconds)} on top"
        if stated.peak_memory_bytes is not None:
            yield "Stated peak memory", bytes_text(stated.peak_memory_bytes)
    if run.unstated:
        yield "Not stated", plain(", ".join(name.replace("_", " ") for name in run.unstated))


def verdicts(run: Run) -> Iterator[str]:
    """What was asked for and got, and whether the result is eager's: Markdown, a line each.

    What was not got stands out; what was is quiet.
    """
    aftermath = run.aftermath
    if aftermath is None:
        return
    if aftermath.effective:
        found = [
            f":gray[{plain(f'{finding.asked}: {finding.got}')}]"
            if finding.met
            else f":yellow[:material/warning: {plain(f'{finding.asked}: {finding.got}')}]"
            for finding in sorted(aftermath.effective, key=lambda finding: finding.met)
        ]
        yield f"**Asked / got** {' · '.join(found)}"
    if aftermath.parity:
        color, icon = PARITY_LOOKS[aftermath.parity.verdict]
        yield f":{color}[{icon} {plain(parity_text(aftermath.parity))}]"


PARITY_LOOKS = {
    "same": ("gray", ":material/check:"),
    "closer to fp64 than eager": ("gray", ":material/check:"),
    "not checked": ("gray", ":material/help:"),
    "differs": ("red", ":material/error:"),
}


def _chart(one: Measured) -> None:
    """Seconds of each epoch, or latency of each iteration."""
    line, name = Line.of(one), one.run.spec.variant.name
    median = one.steady.median_seconds
    title = epochs_title([line], {} if median is None else {name: median}, baseline=name)
    figure = epoch_seconds([line], title=title, uirevision=one.run.id)
    figure.update_layout(height=CHART_HEIGHT)
    st.caption(f"{plain(title)}. Seconds of each {one.unit}.")
    st.plotly_chart(figure, key=f"run_{one.run.id}", config=CONFIG, alt=plain(title))


def latencies(one: Measured) -> Iterator[tuple[str, str]]:
    """Of an inference run: percentiles of its steady iterations, and what came before them."""
    work, count = one.run.spec.workload, len(one.series_seconds)
    if one.steady.first is not None:
        arm = Arm(one.run.spec.variant, (one,))
        ends = arm.known_percentiles().items()
        yield "Steady latency", ", ".join(f"p{q} {seconds_text(p)}" for q, p in ends if p)
        rate = rate_text(work.batch_size / arm.steady_seconds)
        yield f"{work.thing.capitalize()}s a second", rate
        steady = f"{count_text(one.steady.count)} of {counted(count, 'iteration')}"
        yield "Steady", f"{steady}, from iteration {count_text(one.steady.first + 1)}"
    else:
        yield "Iterations", count_text(count)
    made_by = MADE_BY.get(one.run.spec.variant.execution, "making the variant")
    parts = {"compiling": one.compile_seconds, made_by: one.execution_seconds}
    first = seconds_text(one.first_seconds)
    of_it = [f"{name} {seconds_text(seconds)}" for name, seconds in parts.items() if seconds]
    yield "First answer", first + (f", of it {', '.join(of_it)}" if of_it else "")


def _failure(run: Run) -> None:
    st.markdown(f":red[:material/error:] **Failed: {plain(run.failure or 'error')}**")
    if run.reason:
        st.text(run.reason)
    if run.traceback:
        with st.expander("Traceback"):
            st.code(run.traceback, language=None, wrap_lines=True)


def _reasons(activity: Activity) -> None:
    for title, reasons in (
        ("Reasons of the graph breaks", activity.graph_breaks),
        ("Reasons of the recompiles", activity.recompiles),
    ):
        if reasons:
            with st.expander(f"{title} ({len(reasons)})"):
                st.code("\n\n".join(reasons), language=None, wrap_lines=True)


def _log(run: Run) -> None:
    tail = log_tail(run)
    if tail is None:
        return
    with st.expander("Log of the measuring process"):
        if tail.strip():
            st.code(tail, language=None, wrap_lines=True, height=300)
        else:
            st.caption("It is empty.")


def effective(run: Run) -> Iterator[tuple[str, str]]:
    """What was asked for beside what happened, as name and Markdown; yellow where they differ."""
    work, variant = run.spec.workload, run.spec.variant
    env, activity, prepared = run.environment, run.activity, run.prepared
    yield "Execution", plain(EXECUTION_WORDS[variant.execution])
    if variant.execution in COMPILES and not run.stated:
        yield "Cache", _cache(run, activity) if run.states("cache") else NOT_STATED
    if activity and variant.execution in COMPILES:
        frames = f"{activity.frames_compiled} of {activity.frames_total}"
        if activity.graphs == 0:
            frames = f":yellow[{frames}: asked for compile, it ran as eager]"
        elif activity.frames_compiled < activity.frames_total:
            frames = f":yellow[{frames}, the others ran as eager]"
        yield "Frames compiled", frames
        breaks = _count(len(activity.graph_breaks), "break")
        recompiles = _count(len(activity.recompiles), "recompile")
        graphs = f"{activity.graphs}, {breaks}, {recompiles}"
        if activity.recompile_limit_hit:
            graphs += "; recompile limit reached, eager from there on"
        clean = not (activity.graph_breaks or activity.recompiles or activity.recompile_limit_hit)
        yield "Graphs", graphs if clean else f":yellow[{graphs}]"
        if activity.kernels is not None:
            yield "Kernels", count_text(activity.kernels)
    if asks_for_cuda_graphs(run):
        yield "CUDA graphs", _cuda_graphs(run, activity)
    if env and env.threads is not None:
        asked = "left to torch, " if work.threads is None else f"asked for {work.threads}, "
        threads = f"{asked if run.states('threads') else ''}used {env.threads}"
        differs = work.threads not in (None, env.threads)
        yield "CPU threads", f":yellow[{threads}]" if differs else threads
    if env and env.tf32_matmul is not None:
        uses = [
            f"{name} {'on' if on else 'off'}"
            for name, on in (
                ("convolution", env.tf32_convolution),
                ("matrix products", env.tf32_matmul),
            )
        ]
        yield "TF32", f"asked for {work.tf32}: {', '.join(uses)}"
    if prepared and not work.is_function:  # which has none
        asked, got = run.spec.measurement.weights, prepared.weights
        yield "Weights", plain(got) if asked == got else f":yellow[asked for {asked}: {plain(got)}]"


def _cache(run: Run, activity: Activity | None) -> str:
    asked = f"asked for {run.spec.variant.cache}"
    if activity is None:
        return asked
    hits, misses = activity.cache_hits, activity.cache_misses
    if not hits and not misses:
        was = "not used" if not activity.cache_bypasses else "bypassed"
    else:
        was = "was warm" if not misses else "was cold" if not hits else "was partly warm"
    found = f"{_count(hits, 'hit')}, {_count(misses, 'miss', 'misses')}"
    text = f"{asked}, {was}: {found}"
    expected = {"cold": "was cold", "warm": "was warm", "off": was}[run.spec.variant.cache or "off"]
    if was == "bypassed" and run.spec.variant.execution == "compile_frozen":
        was = "was cold"  # what it froze Inductor keeps in no cache on disk
    if activity.graphs and was != expected and run.spec.variant.backend == "inductor":
        return f":yellow[{text}]"
    return text


def asks_for_cuda_graphs(run: Run) -> bool:
    variant = run.spec.variant
    return variant.mode in ("reduce-overhead", "max-autotune") or variant.backend == "cudagraphs"


def _cuda_graphs(run: Run, activity: Activity | None) -> str:
    if not run.spec.device.startswith("cuda"):
        return ":yellow[asked for by the mode; only a CUDA device has them]"
    if activity is None:
        return "asked for"
    if activity.cudagraph_skips:
        return f":yellow[asked for, skipped {_times(activity.cudagraph_skips)}]"
    return "asked for, none skipped"


def environment(run: Run) -> Iterator[tuple[str, str]]:
    env = run.environment
    if env is None:
        return
    device = [plain(env.device_name)] if env.device_name else []
    if env.multiprocessors:
        device.append(f"{env.multiprocessors} SMs")
    if env.compute_capability:
        device.append(f"compute capability {plain(env.compute_capability)}")
    if env.device_memory_bytes:
        device.append(bytes_text(env.device_memory_bytes))
    yield "Machine", f"{plain(env.machine)} ({plain(env.machine_id)})"
    yield f"Device {run.spec.device}", ", ".join(device) or NOT_STATED
    if env.cpu_name:
        facts = [plain(env.cpu_name)]
        if env.cpu_cores:
            facts.append(f"{env.cpu_affinity or env.cpu_cores} of {env.cpu_cores} cores")
        if env.cpu_isa:
            facts.append(plain(env.cpu_isa))
        yield "Processor", ", ".join(facts)
    if env.memory_bytes:
        yield "Memory", bytes_text(env.memory_bytes)
    versions = {
        "torch": env.torch,
        "torchvision": env.torchvision,
        "CUDA": env.cuda,
        "cuDNN": env.cudnn,
        "driver": env.driver,
    }
    software = [f"{name} {plain(text)}" for name, text in versions.items() if text]
    yield "Software", " · ".join(software) or NOT_STATED
    if env.os:
        yield "System", f"{plain(env.os)}, Python {plain(env.python or '')}"
    if env.bench_version:  # by a measuring process of ours, which looks for a compiler
        yield "C++ compiler", plain(env.compiler) if env.compiler else ":yellow[none found]"
        yield "Benchmark", f"version {plain(env.bench_version)}"


def specification(run: Run) -> Iterator[tuple[str, str]]:
    """What was measured; of an imported run only what its source states."""
    for name, parts in _specification(run):
        yield name, ", ".join(words for of, words in parts if run.states(*of)) or NOT_STATED


def _specification(run: Run) -> Iterator[tuple[str, Parts]]:
    work = run.spec.workload
    yield from _of_inference(run) if work.task == "infer" else _of_training(run)
    yield "Precision", [(("precision",), work.precision)]
    if not work.is_function:
        yield "Memory layout", [(("memory_layout",), work.memory_layout.replace("_", " "))]
    if run.prepared:
        if not work.is_function:
            yield "Parameters", [((), count_text(run.prepared.parameters))]
        yield "Set-up", [((), seconds_text(run.prepared.setup_seconds))]
    if run.priming_seconds is not None:
        yield "Filling the warm cache", [((), seconds_text(run.priming_seconds))]


def _of_training(run: Run) -> Iterator[tuple[str, Parts]]:
    work, measurement = run.spec.workload, run.spec.measurement
    ragged = work.samples % work.batch_size
    last = "left out" if work.drop_last else "kept"
    yield "Data", [*_images(run), (("samples",), f"{count_text(work.samples)} samples")]
    workers = _count(work.loader_workers, "loader worker")
    pipeline = work.pipeline.replace("_", " ")
    yield "Pipeline", [(("pipeline",), pipeline), (("loader_workers",), workers)]
    batch = f"last batch of {ragged} {last}" if ragged else "no ragged last batch"
    steps = f"{count_text(work.steps_per_epoch)}, {batch}"
    yield "Steps an epoch", [(("samples", "batch_size", "drop_last"), steps)]
    rate = f"learning rate {work.learning_rate:g}"
    yield "Training", [(("optimizer",), work.optimizer), (("learning_rate",), rate)]
    evaluation = "none" if work.evaluate == "none" else "through the arm's own module"
    yield "Evaluation", [(("evaluate",), evaluation)]
    if not run.stated:
        yield "Epochs", [((), count_text(measurement.epochs)), *_repeat(run)]


def _of_inference(run: Run) -> Iterator[tuple[str, Parts]]:
    work, measurement = run.spec.workload, run.spec.measurement
    if work.is_function:
        made = f"make_inputs({count_text(work.batch_size)}), once before the timing"
        yield "Input", [(("batch_size",), made)]
    elif work.pipeline == "resident":
        made = f"one batch of {work.batch_size} that stays on the device"
        yield "Input", [*_images(run), (("batch_size", "pipeline"), made)]
    else:
        workers = _count(work.loader_workers, "loader worker")
        made = (
            f"{counted(work.steps_per_epoch, 'batch', 'batches')} in turn from the "
            f"loader ({work.pipeline.replace('_', ' ')}, {workers}), each copied to the device in "
            "its iteration"
        )
        told = ("batch_size", "samples", "pipeline", "loader_workers")
        yield "Input", [*_images(run), (told, made)]
    mode: list[tuple[tuple[str, ...], str]] = [(("grad_mode",), str(work.grad_mode))]
    if run.spec.variant.execution != "eager":
        where = "inside of it too" if work.compile_in_grad_mode else "outside of it"
        mode.append((("compile_in_grad_mode",), f"compiled or traced {where}"))
    yield "Grad mode", mode
    if work.backward:
        yield "Backward", [(("backward",), "gradients in each iteration too")]
    if not run.by_another_tool:
        wanted = counted(measurement.iterations, "iteration")
        yield "Asked for", [((), wanted), *_repeat(run)]


def _repeat(run: Run) -> Parts:
    """How this program counts and seeds, which another one's file does not tell."""
    one = run.spec.measurement
    told = [] if run.by_another_tool else [f"repeat {one.repeat}", f"seed {one.seed}"]
    return [((), words) for words in told]


def _images(run: Run) -> Parts:
    work = run.spec.workload
    folder = f", {plain(work.dataset_path)}" if work.dataset_path else ""
    return [
        (("dataset",), f"{work.dataset}{folder}"),
        (("image_size",), f"{work.image_size} px"),
    ]


def _count(count: int, one: str, several: str = "") -> str:
    if count == 0:
        return f"no {several or one + 's'}"
    return counted(count, one, several)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
