"""One HTML file that holds an answer and its evidence: opens offline, asks no host, prints.

Pure: comparisons in, text out. Every word that came from a file or a run is escaped, and the page
forbids itself all but what it brings along. The text of the whole page is in TEMPLATE.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from string import Template

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from bench_core import pair_figures
from bench_core.cause import Cause
from bench_core.chart_frame import CONFIG
from bench_core.chart_titles import epochs_title
from bench_core.comparison import LONG_RUN, Comparison
from bench_core.doubts import doubts_of_pair
from bench_core.events import Environment
from bench_core.figures import Line, epoch_seconds
from bench_core.latency_figures import Latencies, latency_bars
from bench_core.machine_tables import tables
from bench_core.machine_words import headline, left_out_sentences, means_sentences
from bench_core.machines import Across
from bench_core.measured import Measured
from bench_core.pairing import Comparisons
from bench_core.run import NOT_STATED, Run
from bench_core.spec import Frozen, Variant
from bench_core.units import (
    bytes_text,
    counted,
    interval_text,
    ratio_text,
    seconds_text,
)

CHART_HEIGHT = 300
# A browser opens these at once; whoever needs more exports the CSV.
MOST_ROWS = 500
LONG_CELL = 40  # characters
# Fields of the workload that say nothing for a task.
UNREAD = {
    "train": ("compile_in_grad_mode", "backward"),
    "infer": ("optimizer", "learning_rate", "evaluate", "drop_last"),
}

TEMPLATE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data: blob:">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ground: #fff; --text: #111923; --quiet: #5c6877;
  --line: #dce1e7; --code: #f4f6f8 }
@media (prefers-color-scheme: dark) { :root { --ground: #12161c; --text: #e4e8ed;
  --quiet: #a3adb9; --line: #303844; --code: #1b212a } }
@media print { :root { color-scheme: light; --ground: #fff; --text: #000; --quiet: #444 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 68rem; background: var(--ground);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .2rem 0 .5rem }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
h3 { font-size: .95rem; margin: 1rem 0 0 }
p { margin: .3rem 0 }
.quiet, figcaption { color: var(--quiet); font-size: .87rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .87rem }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid var(--line) }
th { font-weight: 600 }
.long { min-width: 15rem }
.cards { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: flex-start }
.facts th { white-space: nowrap; font-weight: 400; color: var(--quiet) }
pre { background: var(--code); padding: .6rem .8rem; border-radius: 6px; font-size: .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere }
figure { margin: 0 0 1rem; break-inside: avoid }
/* The charts stand on white, so that they print as they are seen. */
.chart { background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .4rem;
  height: ${chart_height}px }
tr, h2, h3 { break-inside: avoid; break-after: avoid-page }
</style>
<script>window.PlotlyConfig = {MathJaxConfig: "local"};</script>
<script>$plotly</script>
</head>
<body>
<p class="quiet">Does torch.compile pay off? $stamp</p>
<h1>$title</h1>
<p>$detail</p>
$body
</body>
</html>
""")


def report_html(
    found: Comparisons,
    chosen: Comparison,
    machines: Sequence[str],
    *,
    address: str = "",
    answer: tuple[str, str] | None = None,
    causes: Sequence[Cause] = (),
    worth: Iterable[str] = (),
    of_sizes: Sequence[Comparison] = (),
    across: Across | None = None,
    prices: Mapping[str, float] | None = None,
    epochs: int = LONG_RUN["epoch"],
    now: float | None = None,
) -> str:
    """The report on `found`, with the charts and the runs of `chosen`.

    `machines`: all of the store in the order of their first run, which gives them their colours.
    `answer`: title and sentences of all comparisons as the page says them; else those of the
    chosen pair. `causes`: its diagnosis. `worth`: what a planner said. `of_sizes`: those that the
    page draws by size, the chosen one among them. `across`: machines side by side, with the
    `prices` of an hour by machine id for a training of `epochs`. `address`: where the same view is
    live. `now`: Unix seconds that stand in it as its date.
    """
    title, detail = answer or (chosen.headline, chosen.detail)
    chosen_runs = [*chosen.baseline.runs, *chosen.candidate.runs]
    parts = [
        _section("Comparisons", _comparisons(found.pairs, chosen)),
        _section("Across machines", _machines(across, prices or {}, epochs)),
        _section(f"Charts: {_pair_name(chosen)}", _charts(chosen, of_sizes, machines)),
        _section("What speaks against it", _doubts(found.pairs, chosen)),
        _section("Why, and what to try", _causes(causes)),
        _section("What it is worth", _sentences(worth)),
        _section("The runs of this pair", _runs(chosen_runs)),
        _section("What was measured", _specs(chosen)),
        _section("Where it was measured", _environments(found.pairs)),
        _section("Measure it again", _commands(chosen_runs)),
        _section("What was left out, and why", _left_out(found)),
    ]
    return TEMPLATE.substitute(
        title=escape(title),
        detail=escape(detail),
        stamp=escape(_stamp(chosen_runs, address, now)),
        plotly=get_plotlyjs(),
        chart_height=CHART_HEIGHT + 20,
        body="\n".join(parts),
    )


def _stamp(runs: Sequence[Measured], address: str, now: float | None) -> str:
    """`Report of 2026-12-02 10:16, measured with version 1a2b3c. Live at http://...`."""
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
    ran = [m.run.environment for m in runs if m.run.environment]
    versions = {one.bench_version for one in ran if one.bench_version}
    words = [f"Report of {date}"]
    if versions:
        words.append(f"measured with version {', '.join(sorted(versions))}")
    return ", ".join(words) + (f". Live at {address}" if address else "")


def _pair_name(pair: Comparison) -> str:
    where = [f"{pair.workload.model} on {pair.machine}", *pair.words]
    return ", ".join([*where, f"{pair.candidate.name} against {pair.baseline.name}"])


# HTML from plain text: nothing else escapes or writes a tag


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{content}" if content else ""


def _sentences(sentences: Iterable[str]) -> str:
    return "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)


def _table(rows: Sequence[Mapping[str, str]], most: int = MOST_ROWS) -> str:
    """Columns of the first row's names; those that are empty in every row are left out."""
    if not rows:
        return ""
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = ["".join(f"<th>{escape(name)}</th>" for name in names)]
    lines += ["".join(_cell(row[name]) for name in names) for row in rows[:most]]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    more = f'<p class="quiet">and {len(rows) - most} more</p>' if len(rows) > most else ""
    return f'<div class="wide"><table>\n{body}\n</table></div>{more}'


def _cell(text: str) -> str:
    long = ' class="long"' if len(text) > LONG_CELL else ""
    return f"<td{long}>{escape(text)}</td>"


def _facts(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A small table of names and values, to stand beside others."""
    lines = [f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts]
    body = "\n".join(lines)
    return f'<div>{_heading(title)}<table class="facts">\n{body}\n</table></div>'


def _cards(cards: Iterable[str]) -> str:
    return '<div class="cards">\n' + "\n".join(cards) + "\n</div>"


def _heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


# The parts


def _comparisons(pairs: Sequence[Comparison], chosen: Comparison) -> str:
    """Best first, first looks last. The chosen one's name says so."""
    ordered = sorted(pairs, key=lambda pair: (pair.speedup.verdict is None, -pair.speedup.ratio))
    return _table([_row(pair, chosen) for pair in ordered])


def _row(pair: Comparison, chosen: Comparison) -> dict[str, str]:
    speedup = pair.speedup
    ends = (pair.band.low, pair.band.high) if pair.band else (speedup.low, speedup.high)
    return {
        "Model": pair.workload.model + (" (charts below)" if pair is chosen else ""),
        "Machine": pair.machine,
        "Workload": ", ".join(pair.words),
        "Arms": f"{pair.candidate.name} against {pair.baseline.name}",
        "Speedup": ratio_text(speedup.ratio, *ends),
        "95 % interval": interval_text(speedup.low, speedup.high) or "first look",
        "Verdict": pair.verdict_text,
        "Pays off": pair.pays_off_text,
        "Baseline": seconds_text(pair.baseline.steady_seconds),
        "Candidate": seconds_text(pair.candidate.steady_seconds),
        "Doubts": ", ".join(doubt.label for doubt in doubts_of_pair(pair)),
    }


def _machines(across: Across | None, prices: Mapping[str, float], epochs: int) -> str:
    """What machines side by side say, and their tables."""
    if across is None:
        return ""
    said = [f"{headline(across)}.", *means_sentences(across), *left_out_sentences(across)]
    parts = [_sentences(said)]
    for title, rows, note in tables(across, prices, epochs):
        parts.append(_heading(title) + _table(rows))
        parts += [f'<p class="quiet">{escape(note)}</p>'] if note else []
    return "\n".join(parts)


def _doubts(pairs: Sequence[Comparison], chosen: Comparison) -> str:
    """Those of the chosen pair first."""
    ordered = [chosen, *(pair for pair in pairs if pair is not chosen)]
    return _table(
        [
            {"Comparison": _pair_name(pair), "Doubt": doubt.sentence}
            for pair in ordered
            for doubt in doubts_of_pair(pair)
        ]
    )


def _causes(causes: Sequence[Cause]) -> str:
    """What would change most first, as the diagnosis orders them."""
    return _table(
        [
            {
                "Cause": cause.title,
                "How sure": cause.sure,
                "Why": cause.text,
                "Next": cause.next_step,
            }
            for cause in causes
        ]
    )


def _charts(chosen: Comparison, of_sizes: Sequence[Comparison], machines: Sequence[str]) -> str:
    drawn = []
    for number, (figure, caption) in enumerate(_figures(chosen, of_sizes, machines)):
        figure.update_layout(template="plotly_white", height=CHART_HEIGHT)
        # Its JSON has no bare `<`, so no name can end the script.
        chart = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            config={**CONFIG, "displayModeBar": False, "responsive": True},
            div_id=f"chart-{number}",
        )
        drawn.append(
            f"<figure>{_heading(figure.layout.meta['title'])}<figcaption>{escape(caption)}"
            f'</figcaption><div class="chart">{chart}</div></figure>'
        )
    return "\n".join(drawn)


def _figures(
    chosen: Comparison, of_sizes: Sequence[Comparison], machines: Sequence[str]
) -> Iterator[tuple[go.Figure, str]]:
    """The chosen pair's figures, each with its caption."""
    runs = [*chosen.baseline.runs, *chosen.candidate.runs]
    # One point without a floor to hold it against says what the table does.
    if len(of_sizes) > 1 or (of_sizes and chosen.floor):
        sizes = len({pair.workload.batch_size for pair in of_sizes})
        at = f"{sizes} sizes" if sizes > 1 else ", ".join(chosen.words[:1])
        title = f"{chosen.candidate.name} against {chosen.baseline.name} at {at}"
        yield pair_figures.speedup_by_size(chosen, of_sizes, machines, title)
    if not pair_figures.has_series(chosen):
        return
    if chosen.unit == "iteration":
        arms = [Latencies.of(arm, chosen.workload) for arm in (chosen.baseline, chosen.candidate)]
        title = (
            f"A steady call takes {seconds_text(arms[1].p50)} against {seconds_text(arms[0].p50)}"
        )
        yield latency_bars(arms, title=title), "Bar: median; tick: p90; dot: p99."
    yield pair_figures.saved(chosen, chosen.pays_off_text.rstrip(".") or chosen.verdict_text)
    lines = [Line.of(one) for one in runs]
    steady = {arm.name: arm.steady_seconds for arm in (chosen.baseline, chosen.candidate)}
    title = epochs_title(lines, steady, chosen.baseline.name)
    yield epoch_seconds(lines, title=title), f"Seconds of each {chosen.unit}, a line a run."


def _runs(runs: Sequence[Measured]) -> str:
    return _table(
        [
            {
                "Run": str(one.run.number),
                "Arm": one.run.arm_with_cache,
                "Label": one.run.spec.measurement.label,
                "Ended": one.run.status,
                f"{one.unit.capitalize()}s": "" if one.run.stated else str(one.count),
                f"First {one.unit}": seconds_text(one.first_seconds),
                f"Steady {one.unit}": seconds_text(one.steady.median_seconds),
                "Steady from": str(one.steady_from or ""),
                "Compiling": seconds_text(one.compile_seconds or None),
                "Protocol": one.run.protocol_note or _protocol(one.run),
            }
            for one in runs
        ]
    )


def _protocol(run: Run) -> str:
    return "" if run.by_another_tool else run.spec.measurement.protocol


def _specs(chosen: Comparison) -> str:
    """Every field of the workload and of both variants that is set, and what no source states."""
    work, run = chosen.workload, chosen.candidate.runs[0].run
    cards = [_facts("Workload", _set_fields(work, UNREAD[work.task], run))]
    for word, arm in (("Baseline", chosen.baseline), ("Candidate", chosen.candidate)):
        setting = [(name, str(value)) for name, value in arm.setting if name != "variant"]
        # What another tool calls `compile` states none of torch.compile's defaults.
        usual = Variant(execution=arm.variant.execution)
        of = arm.runs[0].run
        usual_ones = [
            name
            for name, value in arm.variant
            if of.by_another_tool
            and name not in ("execution", "cache")
            and value == getattr(usual, name)
        ]
        cards.append(
            _facts(f"{word}: {arm.name}", [*_set_fields(of.spec.variant, usual_ones, of), *setting])
        )
    return _cards(cards)


def _set_fields(
    values: Frozen, unread: Sequence[str] = (), run: Run | None = None
) -> Iterator[tuple[str, str]]:
    """Of the spec with its `run`, whose source may state less than stands there."""
    for name, value in values:
        if run and name not in unread and not run.states(name):
            yield name.replace("_", " "), NOT_STATED
        elif value is not None and name not in ("event", *unread):
            words = name.replace("_", " ")
            if name.endswith("_bytes"):
                yield words.removesuffix(" bytes"), bytes_text(value)
            else:
                yield words, str(value)


def _environments(pairs: Sequence[Comparison]) -> str:
    """Each machine and device once, as the measuring process found it."""
    found: dict[Environment, None] = {}
    for pair in pairs:
        for one in (*pair.baseline.runs, *pair.candidate.runs):
            if one.run.environment:
                found[one.run.environment] = None
    return _cards(
        _facts(
            ", ".join(filter(None, (environment.machine, environment.device_name))),
            _set_fields(environment),
        )
        for environment in found
    )


def _commands(runs: Sequence[Measured]) -> str:
    """The lines that measure the same runs again, each once; none of what only a file knows."""
    measurable = [one.run for one in runs if not one.run.only_a_file_knows_it]
    lines = dict.fromkeys(run.spec.command for run in measurable)
    if not lines:
        return ""
    note = "Each line measures one run; with --repeats 3 it gives the three that a verdict needs."
    if any(run.by_another_tool for run in measurable):
        note += " What a file does not state is this program's default."
    return f'<p class="quiet">{escape(note)}</p><pre>' + escape("\n".join(lines)) + "</pre>"


def _left_out(found: Comparisons) -> str:
    return _table(
        [
            {
                "Runs": counted(len(runs), "run") + ": " + ", ".join(str(r.number) for r in runs),
                "What": f"{title} on {machine}" if machine else title,
                "Why": reason,
            }
            for title, machine, reason, runs in found.left_out_alike
        ]
    )
