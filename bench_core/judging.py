"""Does a published claim hold here? A kind of claim has its own rule; this is the table of them.

Only what agrees with a claim's conditions judges it: task, model, device, precision, image size,
batch size and vector instructions. Where nothing does, the nearest comparison is told with what it
differs in. The article timed its epochs with the testing in them: where a run tested, its epochs
count so.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from typing import NamedTuple, TextIO

from bench_core import claim_rules as rules
from bench_core import claim_trends as trends
from bench_core.claim_evidence import Evidence, Judgement, differences
from bench_core.claims import Claim
from bench_core.result_csv import defused

# A nearest comparison differs from the claim in no more than this; others say nothing about it.
MOST_DIFFERENCES = 2


def _nowhere(claim: Claim, found: Evidence) -> Judgement | None:
    return Judgement(claim, "not measured", "Not measured by this dashboard.", claim.note)


class Kind(NamedTuple):
    """How a kind of claim is judged, and whether by its range, which it then needs."""

    judge: Callable[[Claim, Evidence], Judgement | None]
    ranged: bool = False


KINDS: dict[str, Kind] = {
    **{
        name: Kind(rules.by_comparisons, rule.settle is rules.meets)
        for name, rule in rules.RULES.items()
    },
    "works with a gain": Kind(rules.works_with_gain, ranged=True),
    "crashed": Kind(rules.crashed),
    "share that ran": Kind(trends.share_that_ran, ranged=True),
    "captured whole": Kind(trends.captured_whole, ranged=True),
    "mean": Kind(trends.mean, ranged=True),
    "grows with batch size": Kind(trends.with_batch),
    "grows with parameters": Kind(trends.with_parameters),
    "grows with load": Kind(trends.with_load),
    "grows with epochs": Kind(trends.with_epochs),
    "desktop against server": Kind(trends.desktop_against_server),
    "transformers": Kind(trends.transformers),
    "not measured here": Kind(_nowhere),
}
RANGED = {name: kind.ranged for name, kind in KINDS.items()}


def judge(claim: Claim, evidence: Evidence) -> Judgement:
    """What the stored runs say about the claim, or what the nearest comparison differs in."""
    held = evidence.with_testing if claim.counts_testing else evidence
    found = held.under(claim)
    return KINDS[claim.kind].judge(claim, found) or _nearest(claim, held, found)


def _nearest(claim: Claim, held: Evidence, found: Evidence) -> Judgement:
    """Nothing measured under the conditions: a failure there, or the comparison next to them."""
    failed = [one for one in found.compiled if one.run.status == "failed"]
    if failed:
        runs = tuple(one.run for one in failed)
        return Judgement(
            claim, "not measured", f"Compile failed. {rules.failed_words(failed)}", "", (), runs
        )
    near = [
        (len(differ), -pair.candidate.runs[-1].run.number, pair, differ)
        for pair in held.pairs
        if pair.candidate.variant == claim.variant
        and (differ := differences(claim, pair.candidate.runs[0].run))
        and "task" not in differ
        and not {"model", "device"} <= differ.keys()
        and not ("model" in differ and "*" in "".join(claim.models))
        and len(differ) <= MOST_DIFFERENCES
    ]
    if not near:
        return Judgement(claim, "not measured", "No run under its conditions yet.")
    *_, pair, differ = min(near, key=lambda one: one[:2])
    told = ", ".join(
        f"{name} ({ours or 'not known'} here, {theirs} in the claim)"
        for name, (ours, theirs) in differ.items()
    )
    work = pair.workload
    arm = "" if pair.candidate.name == "compile" else f", {pair.candidate.name}"
    nearest = f"{work.model}{arm} on {pair.machine}, {work.size_text}: {pair.verdict_text}"
    return Judgement(claim, "not measured", f"Nearest: {nearest}.", f"differs in: {told}", (pair,))


def write(out: TextIO, judgements: Iterable[Judgement]) -> None:
    """One row a claim, for spreadsheets: none of its texts is run as a formula."""
    table = csv.writer(out)
    table.writerow(("id", "claim", "source", "url", "year", "status", "ours", "conditions"))
    for one in judgements:
        claim = one.claim
        cells = (claim.id, claim.claim, claim.source, claim.url, claim.year, one.status, one.ours)
        table.writerow(defused(str(cell)) for cell in (*cells, one.conditions))
