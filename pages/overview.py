"""Overview: the newest answer, the answers before it, and what this machine is doing now.

An answer of this machine comes before newer ones of others. Without a measurement it offers the
demo. Nothing reloads by itself here: Live does that.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import psutil
import streamlit as st

from bench_core import capabilities, worker
from bench_core.comparison import floor_text
from bench_core.measured import Measured
from bench_core.pairing import LeftOut, comparisons, noise_floors
from bench_core.presets import PRESETS
from bench_core.run import ENDED, Run
from bench_core.spec import new_id
from bench_core.store import Store
from bench_core.units import bytes_text, count_text, counted
from pages.parts.answers import Answer, answers_of
from pages.parts.comparison_table import pair_id
from pages.parts.doubt_words import doubt_line, doubts_word
from pages.parts.hero_chart import hero_chart
from pages.parts.kinds import model_text
from pages.parts.live_cards import draw_progress, needs_of
from pages.parts.live_endings import FIRST_LOOK_ICON, VERDICT_ICONS
from pages.parts.live_reading import Reading, read
from pages.parts.machine_colors import mark
from pages.parts.measured import measured_runs
from pages.parts.sample_results import sample_button
from pages.parts.text import plain
from pages.parts.upload import upload_button
from pages.parts.when import reader_zone, when_text

PAGES = Path(__file__).resolve().parent
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"
NEWEST_RUNS = 500  # answers older than these are on Compare
TILES = 8
QUEUE_ROWS = 3
state = st.session_state


def start_demo(label: str, primary: bool = False) -> None:
    """The button carries the experiment's id: pressing one drawn button twice queues once."""
    demo_id = state.setdefault("demo_id", new_id())
    if not st.button(
        label,
        type="primary" if primary else "secondary",
        icon=":material/play_arrow:",
        key=f"demo_{demo_id}",
        help=PRESETS["demo"].caption,
    ):
        return
    here = capabilities.cached()
    demo = PRESETS["demo"].experiment(here.best_device if here else "cpu").changed(id=demo_id)
    with Store() as store:
        store.queue(demo)
    state.demo_id = new_id()
    worker.ensure()
    st.switch_page(PAGES / "live.py", query_params={"experiment": demo.id})


def new_run(primary: bool = False) -> None:
    if st.button("New run", type="primary" if primary else "secondary", icon=":material/add:"):
        st.switch_page(PAGES / "run.py")


# What stands there


def draw_hero(answer: Answer) -> None:
    pair = answer.lead
    stated = [one.run for one in pair.candidate.runs if one.run.states("cache")]
    caches = dict.fromkeys(run.spec.variant.cache for run in stated)
    facts = [answer.kind.lower(), *answer.facts]
    if answer.kind == "Training":
        facts += ["fp32"] * (pair.workload.precision == "fp32" and pair.states("precision"))
        facts += [f"{cache} cache" for cache in caches if cache == "cold"]
    if not answer.measured_here:
        facts.append(f"imported, measured on {pair.machine}")
    row = st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    )
    facts_badge = f":gray-badge[{plain(' · '.join(facts))}]"
    if answer.doubts:
        with row.container(horizontal=True, vertical_alignment="center", width="content"):
            st.markdown(facts_badge, width="content")
            with st.popover(doubts_word(answer.doubts), type="tertiary", width="content"):
                for doubt in answer.doubts:
                    st.markdown(doubt_line(doubt))
    else:
        row.markdown(f"{facts_badge} :gray-badge[{doubts_word(())}]", width="content")
    row.caption(when_text(answer.ended_at, reader_zone()), width="content")
    title, words = map(plain, answer.told)
    st.header(title, anchor=False)
    pays_off = plain(pair.pays_off_text)
    if pays_off:
        words = words.replace(pays_off, f"**{pays_off}**")
    st.markdown(words)
    for doubt in answer.doubts[:1]:
        st.markdown(doubt_line(doubt))
    hero_chart(answer)
    if st.button("Compare", icon=":material/balance:"):
        st.switch_page(PAGES / "compare.py", query_params={"pair": pair_id(pair)})


def draw_tile(answer: Answer, machines: list[str]) -> None:
    pair = answer.lead
    arm = pair.candidate.name
    where = " · ".join([f"on {pair.machine}", *answer.facts])
    if answer.kind == "Training" and arm != "compile":
        where += f" · {arm}"
    icon = VERDICT_ICONS.get(answer.verdict or "", FIRST_LOOK_ICON)
    verdict, detail = answer.short
    verdict = plain(verdict[0].upper() + verdict[1:])
    name = plain(model_text(pair.workload.model))
    with st.container(border=True, gap="xsmall", height="stretch"):
        st.markdown(f"{_mark(pair.machine, machines)} **{name}** :gray[{plain(where)}]")
        detail = " ".join(filter(None, (detail, f"{doubts_word(answer.doubts).capitalize()}.")))
        st.markdown(f"{icon} **{verdict}**  \n:small[:gray[{plain(detail)}]]")


def _mark(machine: str, machines: list[str]) -> str:
    """Of a run that never got to a machine a gray dot."""
    return mark(machines.index(machine)) if machine in machines else ":gray[●]"


def draw_failed_tile(run: Run, machines: list[str]) -> None:
    work = run.spec.workload
    where = " · ".join([f"on {run.machine or run.spec.device}", *run.words])
    reason = run.reason or ""
    reason = reason if len(reason) <= 120 else f"{reason[:117]}…"
    with st.container(border=True, gap="xsmall", height="stretch"):
        name = plain(model_text(work.model))
        st.markdown(f"{_mark(run.machine, machines)} **{name}** :gray[{plain(where)}]")
        failed = f":red[:material/error:] **Failed: {plain(run.failure or 'error')}**"
        detail = plain(f"{run.arm_with_cache}: {reason}")
        st.markdown(f"{failed}  \n:small[:gray[{detail}]]")


def draw_running(running: list[Run], queued: list[Run]) -> None:
    """Read as Live reads it, so that both tell the same time left."""
    run = min(running or queued, key=lambda run: run.waits_for_its_turn)
    with Store() as store:
        experiment = store.experiment(run.experiment_id)
        assert experiment
        reading = read(store, experiment, None)
        needs = needs_of(store, reading)
    row = st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    )
    row.markdown("**Running now**" if running else "**Starting**", width="content")
    row.badge(_doing(run, reading), icon=":material/sync:", color="blue")
    by_turns = ", taking turns with the other arm" if len(running) == 2 else ""
    by_turns = ", taking turns with the other arms" if len(running) > 2 else by_turns
    st.markdown(plain(run.title_with_cache + by_turns))
    draw_progress(reading, needs)
    if run.started_at:
        st.caption(
            f"On {plain(run.machine or run.spec.device)}, since "
            f"{when_text(run.started_at, reader_zone())}. Reload the page to see it move, or watch."
        )
    with st.container(horizontal=True):
        if st.button("Watch", icon=":material/monitoring:"):
            st.switch_page(PAGES / "live.py", query_params={"experiment": run.experiment_id})
        if (
            running
            and not VIEW_ONLY
            and st.button(
                "Stop",
                type="tertiary",
                icon=":material/stop:",
                key=f"stop_{running[0].number}",
                help=f"Stops {'this run' if not by_turns else 'the runs that take turns'} within "
                "5 seconds and frees the device. What was measured is kept.",
            )
        ):
            with Store() as store:
                for one in running:
                    store.stop(number=one.number)
            numbers = " and ".join(str(one.number) for one in running)
            st.toast(f"{counted(len(running), 'run')} told to stop: {numbers}.")
    rest = queued if running else queued[1:]
    if rest:
        st.markdown("**Next in the queue**")
        rows = [
            {"": str(place), "Run": plain(run.title_with_cache)}
            for place, run in enumerate(rest[:QUEUE_ROWS], start=1)
        ]
        st.table(rows, border="horizontal", hide_index=True, hide_header=True, alt="The queue")
        if len(rest) > QUEUE_ROWS:
            st.caption(f"and {counted(len(rest) - QUEUE_ROWS, 'run')} more")


def _doing(run: Run, reading: Reading) -> str:
    """`epoch 3 of 10`, `iteration 120 of 200`; the phase until then."""
    if not run.phase_epoch:
        return run.phase or "waiting"
    whole = run.spec.is_done_after
    if run.spec.workload.unit == "epoch":
        return f"epoch {run.phase_epoch} of {whole}"
    done = len(reading.running.series_seconds) if reading.running else 0
    return f"iteration {count_text(min(done + 1, whole))} of {count_text(whole)}"


def draw_idle(measured_here: list[Run]) -> None:
    st.markdown("**Nothing is running on this machine**")
    if measured_here:
        ended = max(run.ended_at or 0 for run in measured_here)
        st.caption(f"The last run ended {when_text(ended, reader_zone())}.")
    if not VIEW_ONLY:
        start_demo("Run the demo")


def draw_floors(measured: list[Measured]) -> None:
    """Below what size a difference says nothing, where equal arms were measured."""
    words = {"train": "training", "infer": "inference", "function": "functions"}
    for (machine_id, device, kind), floor in noise_floors(measured).items():
        environments = (one.run.environment for one in measured)
        machine = next(one.machine for one in environments if one and one.machine_id == machine_id)
        st.caption(
            plain(
                f"Noise floor of {words[kind]} on {machine} ({device}): equal arms may lie "
                f"{floor_text(floor)} apart, and no smaller difference counts as shown."
            )
        )


def draw_no_answer(measured: list[Measured], left_out: tuple[LeftOut, ...], busy: bool) -> None:
    """Runs there are, but none that may be compared."""
    with st.container(border=True):
        if busy:
            st.markdown("**The first answer is on its way**")
            st.markdown("It comes when both arms of a model have been measured.")
        else:
            st.markdown("**No answer yet**")
            st.markdown("An answer needs eager and one other variant of the same workload.")
        reasons = dict.fromkeys(one.reason for one in left_out if one.runs[0].status in ENDED)
        for reason in list(reasons)[-3:]:
            count = sum(len(one.runs) for one in left_out if one.reason == reason)
            st.caption(f"{counted(count, 'run')}: {plain(reason)}")
        if measured and st.button("Results", icon=":material/table_rows:"):
            st.switch_page(PAGES / "results.py")


def draw_promises() -> None:
    st.markdown("**What you will get**")
    promises = (
        (
            ":material/verified: **A verdict with its interval**",
            "How much faster after warm-up, and from which epoch the compile time is earned back. "
            "Or: never. Or: no difference shown.",
        ),
        (
            ":material/monitoring: **Every epoch as it ends**",
            "Seconds per epoch and what of it was compiling, live; stopped runs keep what they "
            "have measured.",
        ),
        (
            ":material/devices: **Your other machines**",
            "The same command on a T4 or an A100 writes a CSV. Upload it, and they stand side "
            "by side.",
        ),
    )
    with st.grid(3, min_column_width=220):
        for title, text in promises:
            with st.container(border=True, gap="xsmall", height="stretch"):
                st.markdown(title)
                st.caption(text)


def this_machine() -> str:
    here = capabilities.cached()
    facts = [counted(capabilities.usable_cores(), "core")]
    if here:
        facts.insert(0, plain(here.cpu_name.replace("(R)", "").replace("(TM)", "")))
        gpus = [device.name for device in here.devices if device.id != "cpu"]
        facts.append(plain(", ".join(gpus)) if gpus else "no GPU")
    try:
        facts.append(f"torch {plain(metadata.version('torch'))}")
    except metadata.PackageNotFoundError:
        facts.append(":red[torch is not installed]: pip install -r requirements.txt")
    if here:
        missing = [name for name, there in (("C++ compiler", here.compiler),) if not there]
        missing += [] if here.openssl else ["openssl"]
        facts += [f":red[no {name} found]" for name in missing] or ["C++ compiler found"]
    facts.append(f"{bytes_text(psutil.virtual_memory().available)} of memory free")
    return f":material/computer: This machine: {' · '.join(facts)}"


with Store() as store:
    runs = store.runs()
    machines = store.machines()
    ended = [run for run in runs if run.status in ENDED]
    here = [run for run in ended if run.import_id is None]  # a large import hides none of them
    newest = {run.number: run for run in (*here[-NEWEST_RUNS:], *ended[-NEWEST_RUNS:])}
    measured = measured_runs(store, [newest[number] for number in sorted(newest)])
running = [run for run in runs if run.status == "running"]
queued = [run for run in runs if run.status == "queued"]
if not running and not queued and not (capabilities.cached() or capabilities.failure()):
    capabilities.start_probe()  # so that the launch page need not wait

with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
    st.title("Does torch.compile pay off?", anchor=False, width="content")
    if runs and not VIEW_ONLY:
        new_run(primary=True)

if not runs:
    with st.container(
        border=True, height=280, horizontal_alignment="center", vertical_alignment="center"
    ):
        st.markdown("**No measurements yet**", width="content")
        st.markdown(
            "Measure two small networks in eager mode and with torch.compile on this machine. It "
            "takes two to three minutes on two cores and ends in a first look.",
            width=520,
            text_alignment="center",
        )
        if VIEW_ONLY:
            st.caption("This dashboard is for viewing only.", width="content")
        else:
            with st.container(horizontal=True, horizontal_alignment="center"):
                start_demo("Run the demo", primary=True)
                new_run()
                sample_button()
                upload_button()
    draw_promises()
    st.caption(this_machine())
    st.stop()

found = comparisons(measured)
answers = answers_of(found.pairs)
# What was measured here says more of this machine than a newer result of another one.
hero = next((answer for answer in answers if answer.measured_here), next(iter(answers), None))
left, right = st.columns([2.2, 1], gap="small")
with left:
    if hero:
        with st.container(border=True, gap="small", height="stretch"):
            draw_hero(hero)
    else:
        draw_no_answer(measured, found.left_out, bool(running or queued))
        draw_promises()
with right, st.container(border=True, gap="small", height="stretch"):
    if running or queued:
        draw_running(running, queued)
    else:
        draw_idle([run for run in runs if run.import_id is None and run.ended_at])
    draw_floors(measured)

# A run that failed is news too, until the same has been measured after all.
tiles: list[tuple[float, Answer | Run]] = [
    (answer.ended_at, answer) for answer in answers if answer is not hero
]
done = {(pair.workload, pair.candidate.variant) for pair in found.pairs}
for one in measured:
    what = (one.run.spec.workload, one.run.spec.variant.arm)
    if one.run.status == "failed" and what not in done:
        done.add(what)
        tiles.append((one.run.ended_at or 0, one.run))
tiles.sort(key=lambda tile: tile[0], reverse=True)
if tiles:
    st.markdown("**Latest answers**")
    with st.grid(4, min_column_width=240):
        for _, tile in tiles[:TILES]:
            if isinstance(tile, Run):
                draw_failed_tile(tile, machines)
            else:
                draw_tile(tile, machines)
    if len(found.pairs) > 1:
        st.page_link(PAGES / "compare.py", label="All comparisons", icon=":material/balance:")
st.caption(this_machine())
