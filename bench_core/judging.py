"""Does a published claim hold here? A kind of claim has its own rule; this is the table of them.

Only what agrees with a claim's conditions judges it: task, model, device, precision, image size,
batch size and vector instructions. Where nothing does, the nearest comparison is told with what it
differs in. The article timed its epochs with the testing in them: where a run tested, its epochs
count so.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from typing import TextIO

from bench_core import claim_rules as rules
from bench_core import claim_trends as trends
from bench_core.claim_evidence import Evidence, Judgement, differences
from bench_core.claims import Claim
from bench_core.result_csv import RUN_BY_SPREADSHEETS

# A nearest comparison differs from the claim in no more than this; others say nothing about it.
MOST_DIFFERENCES = 2


def _nowhere(claim: Claim, found: Evidence) -> Judgement | None:
    return Judgement(claim, "not measured", "Not measured by this dashboard.", claim.note)


JUDGES: dict[str, Callable[[Claim, Evidence], Judgement | None]] = {
    **dict.fromkeys(rules.RULES, rules.by_comparisons),
    "works with a gain": rules.works_with_gain,
    "crashed": rules.crashed,
    "share that ran": trends.share_that_ran,
    "captured whole": trends.captured_whole,
    "mean": trends.mean,
    "grows with batch size": trends.with_batch,
    "grows with parameters": trends.with_parameters,
    "grows with load": trends.with_load,
    "grows with epochs": trends.with_epochs,
    "desktop against server": trends.desktop_against_server,
    "transformers": trends.transformers,
    "not measured here": _nowhere,
}


def judge(claim: Claim, evidence: Evidence) -> Judgement:
    """What the stored runs say about the claim, or what the nearest comparison differs in."""
    held = evidence.with_testing if claim.counts_testing else evidence
    found = held.under(claim)
    return JUDGES[claim.kind](claim, found) or _nearest(claim, held, found)


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
        table.writerow(
            f"'{cell}" if str(cell).startswith(RUN_BY_SPREADSHEETS) else cell
            for cell in (*cells, one.conditions)
        )
