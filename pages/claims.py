"""Claims: what was published about torch.compile, and whether it holds in the stored runs.

One card a claim: the sentence and its source, ours with the conditions, the judgement and how it
gets measured. Nothing is judged but by runs under the claim's own conditions.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path

import streamlit as st

from bench_core import capabilities, worker
from bench_core.claim_evidence import STATUSES, Evidence, Judgement, Status
from bench_core.claim_experiments import NextStep, next_step
from bench_core.claim_trends import MANY
from bench_core.claims import Claim, load
from bench_core.correlation import FEWEST_POINTS
from bench_core.estimates import KnownRun, estimate_seconds
from bench_core.judging import RANGED, judge, write
from bench_core.measured import Measured
from bench_core.run import ENDED
from bench_core.spec import new_id
from bench_core.stats import RUNS_FOR_A_VERDICT
from bench_core.store import Store
from bench_core.units import counted, estimate_text
from pages.parts.comparison_table import pair_id
from pages.parts.estimates import known_runs
from pages.parts.measured import measured_runs
from pages.parts.text import plain

PAGES = Path(__file__).resolve().parent
VIEW_ONLY = os.environ.get("BENCH_VIEW_ONLY") == "1"
COLUMNS = (1.5, 1.75, 1)
state = st.session_state

# What the pills are called, in the address and on the page.
SHOWN: dict[str, tuple[str, Status | None]] = {
    "all": ("All", None),
    "holds": ("Holds here", "holds here"),
    "not": ("Does not hold", "does not hold here"),
    "open": ("Not measured", "not measured"),
}
BADGES = {
    "holds here": ("green", ":material/check:"),
    "does not hold here": ("red", ":material/close:"),
    "not measured": ("gray", None),
}
RULES = f"""\
- A claim is judged by runs that agree with it in task, model, device, precision and image size. \
Batch size counts where the claim names one.
- "About 5 %" stands for 3 to 7 %: plus or minus 2 percentage points, or a tenth of the gain where \
that is more. A range is taken as it is. An effect within 2 % is none.
- A claim whose range meets our 95 % interval holds. That something has no effect, is slower, or \
can be faster, must be shown.
- Of several comparisons under a claim's conditions, half must hold.
- Fewer than {RUNS_FOR_A_VERDICT} runs an arm are a first look and judge nothing. Claims over many \
models or comparisons have their interval over these: one run an arm will do, from {MANY} models \
on, for a trend from {FEWEST_POINTS} comparisons on, between two kinds from {RUNS_FOR_A_VERDICT} \
models of each on.
- Published figures are of older versions of torch; the line below ours names the one used here.
"""


@st.cache_resource(show_spinner=False, max_entries=4)
def judged_by(
    runs: tuple[tuple[str, str], ...], _measured: list[Measured], _tested: list[Measured]
) -> list[Judgement]:
    """Ended runs do not change, and judging 2,000 of them takes seconds."""
    evidence = Evidence.of(_measured, _tested)
    return [judge(claim, evidence) for claim in load(RANGED)]


def headline(counts: Counter[str]) -> str:
    """`Of 27 claims: 6 hold here, 1 does not, 20 are not measured yet.`"""
    holds, fails, rest = (counts[status] for status in STATUSES)
    parts = (
        f"{holds} {'holds' if holds == 1 else 'hold'} here",
        f"{fails} {'does' if fails == 1 else 'do'} not",
        f"{rest} {'is' if rest == 1 else 'are'} not measured yet",
    )
    told = ", ".join(f"**{part}**" for part in parts)
    return (
        f"Of {counted(sum(counts.values()), 'claim')}: {told}. A claim is judged only by runs "
        "under its own conditions."
    )


def keep_choice() -> None:
    st.query_params["show"] = state.claims_shown


def choice(counts: Counter[str]) -> Status | None:
    """The pills; the address holds the choice, by a name that its count does not change."""
    named = st.query_params.get("show", "all")
    chosen = st.pills(
        "Claims shown",
        list(SHOWN),
        default=named if named in SHOWN else "all",
        required=True,
        format_func=lambda name: f"{SHOWN[name][0]} · {_count(name, counts)}",
        key="claims_shown",
        on_change=keep_choice,
        label_visibility="collapsed",
        wrap=True,
    )
    return SHOWN[chosen or "all"][1]


def _count(name: str, counts: Counter[str]) -> int:
    status = SHOWN[name][1]
    return counts[status] if status else sum(counts.values())


def conditions_of(claim: Claim) -> str:
    """`T4`, `A100, fp32 and AMP`: what stands behind the source."""
    devices = [device for device in claim.devices if device != "any"]
    single, mixed = "fp32" in claim.precisions, {"bf16", "fp16"} <= set(claim.precisions)
    precisions = ["fp32"] * single + ["AMP"] * mixed if mixed else claim.precisions
    words = [" and ".join(devices), " and ".join(precisions)]
    return ", ".join(filter(None, words))


def draw_card(judged: Judgement, step: NextStep | None, known: list[KnownRun]) -> None:
    claim = judged.claim
    with st.container(border=True, key=f"claim_{claim.id}"):
        said, ours, verdict = st.columns(COLUMNS, gap="small", vertical_alignment="center")
        source = " · ".join(filter(None, [f"{claim.source} {claim.year}", conditions_of(claim)]))
        said.markdown(
            f"**{plain(claim.claim.removesuffix('.'))}**  \n:small[[{plain(source)}]({claim.url})]",
            help=plain(claim.note) if claim.note not in ("", judged.conditions) else None,
        )
        color = "{}" if judged.status != "not measured" else ":gray[{}]"
        words = color.format(plain(judged.ours.removesuffix(".")))
        if judged.conditions:
            words += f"  \n:small[:gray[{plain(judged.conditions)}]]"
        ours.markdown(words)
        with verdict.container(gap="xsmall"):
            draw_verdict(judged, step, known)


def link_of(judged: Judgement) -> dict[str, str]:
    """The first comparison on Compare, its epochs counted as here."""
    pair = judged.pairs[0]
    testing = judged.claim.counts_testing and pair.workload.evaluate != "none"
    return {"pair": pair_id(pair), **({"testing": "true"} if testing else {})}


def draw_verdict(judged: Judgement, step: NextStep | None, known: list[KnownRun]) -> None:
    color, icon = BADGES[judged.status]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(judged.status, icon=icon, color=color)  # type: ignore[arg-type]
        if judged.pairs:
            st.page_link(
                PAGES / "compare.py",
                label="Compare",
                icon=":material/balance:",
                query_params=link_of(judged),
            )
        elif judged.runs:
            st.page_link(PAGES / "results.py", label="Results", icon=":material/table_rows:")
    if step is None:
        return
    if step.experiment and not VIEW_ONLY:
        queue_button(judged.claim, step, known)
    elif step.command:
        with st.popover(plain(step.sentence), type="tertiary", icon=":material/terminal:"):
            st.markdown(
                "Run this there, in the folder of this program. It writes every stored fact to "
                "results.csv, to be uploaded here."
            )
            st.code(step.command, language="bash", wrap_lines=True)
    elif step.sentence and step.sentence != judged.conditions:
        st.caption(plain(step.sentence))


def queue_button(claim: Claim, step: NextStep, known: list[KnownRun]) -> None:
    """The button carries the experiment's id: pressing one drawn button twice queues once."""
    assert step.experiment
    key = f"claim_experiment_{claim.id}"
    experiment = step.experiment.changed(id=state.setdefault(key, new_id()))
    runs, seconds = len(experiment.runs()), estimate_seconds(experiment, known)
    if st.button(
        f"Queue {counted(runs, 'run')}, {estimate_text(seconds)}",
        type="tertiary",
        icon=":material/add:",
        key=f"queue_{experiment.id}",
        help="Queues what this claim needs on this machine and goes to Live, where it can be "
        "stopped at any time.",
    ):
        with Store() as store:
            store.queue(experiment)
        state[key] = new_id()
        worker.ensure()
        st.switch_page(PAGES / "live.py", query_params={"experiment": experiment.id})


def csv_of(judgements: list[Judgement]) -> bytes:
    text = io.StringIO(newline="")
    write(text, judgements)
    return text.getvalue().encode("utf-8-sig")  # spreadsheets guess the encoding otherwise


header = st.container(
    horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
)
header.title("Published claims beside our results", anchor=False, width="content")

here = capabilities.cached()
with Store() as store:
    ended = store.runs(statuses=ENDED)
    judgements = judged_by(
        tuple((run.id, run.machine) for run in ended),
        measured_runs(store, ended),
        measured_runs(store, ended, evaluation=True),
    )
    known = known_runs(store, here)
    measuring = bool(store.running() or store.queued())
if here is None and not measuring and not capabilities.failure():
    capabilities.start_probe()  # while something is measured it would be a loud neighbour
counts = Counter[str](one.status for one in judgements)

header.download_button(
    "Download",
    data=csv_of(judgements),
    file_name="claims.csv",
    mime="text/csv",
    icon=":material/download:",
    on_click="ignore",
)
st.markdown(headline(counts))
with st.container(horizontal=True, vertical_alignment="center"):
    chosen = choice(counts)
    with st.popover("How a claim is judged", icon=":material/help:", type="tertiary"):
        st.markdown(RULES)
if here is None and not VIEW_ONLY:
    reason = capabilities.failure()
    st.caption(
        f"What torch offers on this machine is not known: {plain(str(reason))}"
        if reason
        else "Reading what torch offers on this machine: reload to see what can be queued here."
    )

shown = [one for one in judgements if chosen in (None, one.status)]
if not shown:
    st.markdown(f"No claim is judged so yet: {plain(str(chosen))}.")
for one in shown:
    draw_card(one, next_step(one.claim, here) if one.status == "not measured" else None, known)
