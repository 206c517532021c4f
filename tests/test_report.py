"""The report holds the answer and its evidence, brings all it needs, and shows words as words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bench_core import pair_figures, pairing
from bench_core.diagnosis import diagnose
from bench_core.doubts import doubts_of_pair
from bench_core.measured import Measured, measure
from bench_core.pairing import Axis, Comparisons, LeftOut
from bench_core.report import report_html
from bench_core.source import Stated
from bench_core.spec import Rung, Variant
from bench_core.store import Store
from pages.parts.comparison_charts import of_any_size
from pages.parts.report_button import report_of as made_report
from tests.planted import COMPILE, EAGER, measured_in, planted_experiment

SCRIPT = "<script>alert(1)</script>"
END = "</script><img src=x onerror=alert(1)>"
DRAWN_BY_US = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "script",
    "body",
    "p",
    "h1",
    "h2",
    "h3",
    "div",
    "table",
    "tr",
    "th",
    "td",
    "figure",
    "figcaption",
    "pre",
}


class Page(HTMLParser):
    """What a browser would make of it: the tags with their attributes, and the words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.words += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report_of(found: Comparisons, **more: Any) -> Page:
    return Page(report_html(found, found.pairs[0], ["T4", "A100", "CPU"], **more))


def test_answer_table_charts_machine_commands_and_what_was_left_out(store: Store) -> None:
    planted_experiment(store)
    planted_experiment(store, models=("resnet18",), machine="A100")
    planted_experiment(store, models=("resnet50",), variants=(EAGER,), repeats=1)
    found = pairing.comparisons(measured_in(store))
    first, other = found.pairs
    page = report_of(found, address="http://127.0.0.1:8501/comparison?pair=1-2", now=0.0)
    for words in (
        first.headline,
        first.detail,
        other.verdict_text,
        "Never pays off.",
        "Seconds saved so far against the baseline",
        "Tesla T4",
        "NVIDIA A100-SXM4-40GB",
        "570.86",
        first.candidate.runs[0].run.spec.command,
        "no other variant than eager of the same workload on this machine",
        "Live at http://127.0.0.1:8501/comparison?pair=1-2",
        "Report of 1970-01-01",
        "measured with version 1",
    ):
        assert words in page.words, words
    charts = [one for one in page.named("div") if (one.get("id") or "").startswith("chart-")]
    assert len(charts) == 2
    assert "Compiled epochs take 61.2" in page.words  # a figure's own title, from layout.meta


def test_the_pages_answer_takes_the_place_of_the_pairs(store: Store) -> None:
    planted_experiment(store)
    found = pairing.comparisons(measured_in(store))
    page = report_of(found, answer=("Faster in 1 of 1", "Mean 1.08."), worth=("It saves 5 min.",))
    for words in ("Faster in 1 of 1", "Mean 1.08.", "What it is worth", "It saves 5 min."):
        assert words in page.words
    assert page.words.count("Faster in 1 of 1") == 2  # title of the window and of the page


def hostile(one: Measured) -> Measured:
    """The run with tags wherever a file or a person may put words."""
    run = one.run
    spec = run.spec.changed(
        workload=run.spec.workload.changed(model=f"file:{SCRIPT.replace('/', '')}.py"),
        measurement=run.spec.measurement.changed(label=END),
        variant=run.spec.variant.changed(options={SCRIPT: END})
        if run.spec.variant.backend
        else run.spec.variant,
    )
    environment = run.environment.changed(machine=SCRIPT, device_name=END, compiler=SCRIPT)
    changed = replace(run, spec=spec, environment=environment, protocol_note=END)
    return measure(replace(changed, unstated=("</td>",)), one.epochs)


def test_words_from_files_and_runs_are_shown_as_words(store: Store) -> None:
    planted_experiment(store, epochs=6)
    runs = [hostile(one) for one in measured_in(store)]
    found = pairing.comparisons(runs)
    found = replace(found, left_out=(LeftOut((runs[0].run,), "failed", f"failed: {END}"),))
    pair = replace(found.pairs[0], overridden=(SCRIPT,))
    text = report_html(
        found, pair, [SCRIPT], address=END, answer=(SCRIPT, END), worth=(SCRIPT, END)
    )
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= DRAWN_BY_US
    # The library, its settings, and one for each chart.
    assert len(page.named("script")) == 2 + 2
    assert SCRIPT not in text and END not in text
    assert not [name for _, given in page.tags for name in given if name.startswith("on")]
    assert page.words.count(SCRIPT) >= 6 and page.words.count(END) >= 6


def test_it_brings_what_it_needs_and_forbids_itself_the_rest(store: Store) -> None:
    planted_experiment(store, repeats=1)
    found = pairing.comparisons(measured_in(store))
    page = report_of(found)
    assert not [name for _, given in page.tags for name in given if name in ("src", "href")]
    [policy] = [one for one in page.named("meta") if one.get("http-equiv")]
    assert "default-src 'none'" in policy["content"]
    text = report_html(found, found.pairs[0], ["T4"])
    assert text.count("plotly.js v") == 1 and "showSendToCloud" in text
    assert 'plotlyServerURL": "https' not in text


def test_the_causes_stand_in_their_order_with_what_to_try(store: Store) -> None:
    planted_experiment(store)
    runs = measured_in(store)
    found = pairing.comparisons(runs)
    causes = diagnose(found.pairs[0], runs)
    assert causes
    page = report_of(found, causes=causes)
    places = [page.words.index(cause.title) for cause in causes]
    assert places == sorted(places)
    for cause in causes:
        assert cause.text in page.words and cause.next_step in page.words


def test_a_first_look_has_no_interval_and_sizes_share_a_chart(store: Store) -> None:
    planted_experiment(store, repeats=1, batch_sizes=(16, 32))
    found = pairing.comparisons(measured_in(store))
    page = report_of(found, of_sizes=of_any_size(found.pairs[0], found.pairs))
    assert "first look" in page.words
    assert "compile against eager at 2 sizes" in page.words


def test_a_known_noise_floor_is_a_band_behind_the_speedup(store: Store) -> None:
    planted_experiment(store)
    [pair] = pairing.comparisons(measured_in(store)).pairs
    noisy = replace(pair, floor=0.02)
    page = report_of(Comparisons((noisy,), ()), of_sizes=[noisy])
    assert "Grey band: T4's own noise (A/A)." in page.words
    assert "compile against eager at batch 16" in page.words
    assert "Grey band" not in report_of(Comparisons((pair,), ()), of_sizes=[pair]).words


def test_a_break_even_far_beyond_the_measured_iterations_is_on_the_chart(store: Store) -> None:
    planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,),
        variants=(EAGER, Variant(execution="compile_frozen")), workload={"task": "infer"},
    )  # fmt: skip
    [pair] = pairing.comparisons(measured_in(store)).pairs
    assert pair.break_even_cold and pair.break_even_cold.epoch
    assert pair.break_even_cold.epoch > 4 * 120
    figure, caption = pair_figures.saved(pair, "")
    furthest = max(max(line.x) for line in figure.data if line.x is not None and len(line.x))
    assert furthest >= pair.break_even_cold.epoch
    assert "with the 95 % band" in caption


def test_the_pages_report_names_its_address_and_gives_equal_arms_no_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    sides = (Rung(side="A"), Rung(side="B"))
    address = "http://127.0.0.1:8501/comparison?task=Training&view=absolute"
    with Store() as opened:
        planted_experiment(opened, variants=(EAGER,), rungs=sides)
        equal = pairing.comparisons(measured_in(opened), Axis(("side",), (("side", "A"),)))
        planted_experiment(opened)
        usual = pairing.comparisons([m for m in measured_in(opened) if m.run.number > 6])
    for found, worth in ((equal, False), (usual, True)):
        text = made_report(found, found.pairs[0], ["T4"], address, (100, 1, False))
        page = Page(text)
        assert f"Live at {address}" in page.words
        assert ("What it is worth" in page.words) == worth


def test_inference_has_its_latencies(store: Store) -> None:
    planted_experiment(
        store, models=("resnet18",), machine="CPU", batch_sizes=(1,),
        variants=(EAGER, Variant(execution="onednn_graph")), workload={"task": "infer"},
    )  # fmt: skip
    page = report_of(pairing.comparisons(measured_in(store)))
    assert "A steady call takes 32.9" in page.words.replace("\u00a0", " ")
    assert "optimizer" not in page.words


def test_doubts_stand_beside_the_number_and_in_full(store: Store) -> None:
    planted_experiment(store, variants=(EAGER,))
    planted_experiment(store, variants=(COMPILE,), batch_sizes=(32,))
    runs = measured_in(store)
    pair = replace(pairing.override(runs[:3], runs[3:]), unstated=("threads",))
    page = report_of(Comparisons((pair,), ()))
    doubts = doubts_of_pair(pair)
    assert {doubt.kind for doubt in doubts} >= {"differs besides", "not stated"}
    assert ", ".join(doubt.label for doubt in doubts) in page.words
    for doubt in doubts:
        assert doubt.sentence in page.words


def test_a_stated_time_is_that_of_no_epoch_and_has_no_line_to_measure_it_again(
    store: Store,
) -> None:
    planted_experiment(store)
    stated = [
        measure(replace(one.run, stated=Stated(steady_seconds=one.steady.median_seconds)), ())
        for one in measured_in(store)
    ]
    page = report_of(pairing.comparisons(stated))
    assert "Steady epoch" in page.words
    assert "Steady from" not in page.words and "Epochs" not in page.words
    assert "Measure it again" not in page.words


def test_its_stamp_has_the_day_and_the_measuring_version(store: Store) -> None:
    planted_experiment(store, repeats=1)
    page = report_of(pairing.comparisons(measured_in(store)), now=1.7e9, address="http://here")
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(1.7e9))
    assert f"Report of {day}, measured with version 1. Live at http://here" in page.words
