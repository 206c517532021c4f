"""Comparisons that give one answer: one of training, all arms of one workload at inference, all
sizes of one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench_core.comparison import Comparison
from bench_core.doubts import Doubt, doubts_of_pair, worst
from bench_core.pairing import Comparisons
from bench_core.sizes import pays_text, sizes_that_pay
from bench_core.units import EN_DASH, NO_BREAK, count_text, percent_interval_text
from pages.parts.comparison_words import answer, vary_in_size_only
from pages.parts.kinds import kind_of


@dataclass(frozen=True)
class Answer:
    """`pairs` are never empty. What is said of several is said of `lead`."""

    pairs: tuple[Comparison, ...]

    @property
    def kind(self) -> str:
        return kind_of(self.pairs[0].workload)

    @property
    def of_sizes(self) -> bool:
        return self.kind == "Functions" and len(self.pairs) > 1

    @property
    def lead(self) -> Comparison:
        """The fastest arm; of a function's sizes the smallest that pays, or the largest."""
        if not self.of_sizes:
            return max(self.pairs, key=lambda pair: pair.speedup.ratio)
        ordered = sorted(self.pairs, key=lambda pair: pair.workload.batch_size)
        onward = sizes_that_pay(self.pairs).onward
        return next((one for one in ordered if one.workload.batch_size == onward), ordered[-1])

    @property
    def measured_here(self) -> bool:
        """Whether none of its runs was imported: this machine's own."""
        arms = [arm for pair in self.pairs for arm in (pair.baseline, pair.candidate)]
        return all(one.run.import_id is None for arm in arms for one in arm.runs)

    @property
    def ended_at(self) -> float:
        arms = [arm for pair in self.pairs for arm in (pair.baseline, pair.candidate)]
        return max(one.run.ended_at or 0.0 for arm in arms for one in arm.runs)

    @property
    def told(self) -> tuple[str, str]:
        """Title and sentences, as Compare says them."""
        return answer(Comparisons(self.pairs if self.of_sizes else (self.lead,), ()))

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Those of the comparisons that its title is of, each kind once."""
        pairs = self.pairs if self.of_sizes else (self.lead,)
        return worst(doubt for pair in pairs for doubt in doubts_of_pair(pair))

    @property
    def facts(self) -> list[str]:
        """`batch 1`, `fp32`; `batch 16`, `bf16`, `channels_last`; `n = 100–1 000 000` for a
        function's sizes.
        """
        if not self.of_sizes:
            return self.lead.words
        sizes = [pair.workload.batch_size for pair in self.pairs]
        ends = f"{count_text(min(sizes))}{EN_DASH}{count_text(max(sizes))}"
        return [f"n{NO_BREAK}={NO_BREAK}{ends}"]

    @property
    def verdict(self) -> str | None:
        """As of a speedup: of sizes `faster` where one pays; None for a first look."""
        if not self.of_sizes:
            return self.lead.verdict
        found = sizes_that_pay(self.pairs)
        if found.first_look:
            return None
        return "faster" if found.onward or found.alone else "no difference shown"

    @property
    def short(self) -> tuple[str, str]:
        """The verdict in a few words, and what stands in small type below it."""
        lead = self.lead
        if self.of_sizes:
            first_look = "first look: " if self.verdict is None else ""
            return first_look + pays_text(self.pairs), lead.pays_off_text
        words = lead.verdict_text
        if self.kind == "Inference":
            words += f" with {lead.candidate.name}"
        detail = [lead.pays_off_text]
        if lead.speedup.low and lead.speedup.high:
            detail[:0] = [f"95 %: {percent_interval_text(lead.speedup.low, lead.speedup.high)}."]
        others = sorted(self.pairs, key=lambda pair: -pair.speedup.ratio)[1:]
        rest = ", ".join(
            f"{pair.candidate.name} {pair.verdict_text.removeprefix('first look: ')}"
            for pair in others
        )
        detail += [f"Others: {rest}."] if rest else []
        return words, " ".join(filter(None, detail))


def answers_of(pairs: Sequence[Comparison]) -> list[Answer]:
    """Newest first."""
    groups: list[list[Comparison]] = []
    for pair in pairs:
        group = next((group for group in groups if _belongs(pair, group[0])), None)
        if group is None:
            groups.append([pair])
        else:
            group.append(pair)
    answers = [Answer(tuple(group)) for group in groups]
    return sorted(answers, key=lambda answer: answer.ended_at, reverse=True)


def _belongs(pair: Comparison, first: Comparison) -> bool:
    kind = kind_of(pair.workload)
    if kind != kind_of(first.workload) or kind == "Training":
        return False
    if kind == "Functions":
        return vary_in_size_only(pair, first)
    return pair.baseline.runs[0].run.number == first.baseline.runs[0].run.number
