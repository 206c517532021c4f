"""What tests of pages share: an app on a store of their own, driven without a browser."""

from __future__ import annotations

from typing import Any

from streamlit.testing.v1 import AppTest

from bench_core.events import Aftermath, Finding, Parity
from bench_core.paths import CHECKOUT
from bench_core.spec import Experiment, Variant
from bench_core.store import Store
from tests.planted import COMPILE, EAGER, plant_run, planted_experiment

FUSED = Variant(execution="onednn_graph")
UNFUSED = Finding(asked="oneDNN Graph", got="no group was **fused**", met=False)
SAME = Parity(verdict="same", text="its outputs differ by 3e-7.", output_difference=3e-7)
WRONG = Parity(verdict="differs", text="its outputs differ by 4e-2, 2e-2 are allowed.")


def opened(page: str, /, **link: str | list[str]) -> AppTest:
    at = AppTest.from_file(str(CHECKOUT / "app.py"), default_timeout=60)
    at.switch_page(f"pages/{page}.py")
    for name, value in link.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    return at


def words(at: AppTest) -> str:
    """All Markdown of the page, as it is sent to the browser."""
    return "\n".join(str(part.value) for part in (*at.markdown, *at.caption, *at.subheader))


def table(at: AppTest, with_column: str) -> Any:
    return next(frame.value for frame in at.dataframe if with_column in frame.value.columns)


def button(at: AppTest, label: str) -> Any:
    return next(one for one in at.button if label in one.label)


def labels(at: AppTest) -> list[str]:
    return [one.label for one in at.button]


def said(at: AppTest) -> str:
    """All words of the page, spaces of all kinds as one, without escapes."""
    return words(at).translate(str.maketrans({"\u00a0": " ", "\u202f": " ", "\\": ""}))


def inference(store: Store, **changed: Any) -> Experiment:
    fields: dict[str, Any] = {
        "models": ("resnet18",),
        "machine": "CPU",
        "batch_sizes": (1,),
        "variants": (EAGER, COMPILE, FUSED),
        "repeats": 1,
        "workload": {"task": "infer"},
        **changed,
    }
    return planted_experiment(store, **fields)


def function(store: Store, **changed: Any) -> Experiment:
    sizes = (100, 1000, 10_000, 100_000)
    fields = {"models": ("function:sin_cos",), "batch_sizes": sizes, "variants": (EAGER, COMPILE)}
    return inference(store, **{**fields, **changed})


def with_aftermath(store: Store, execution: str, aftermath: Aftermath, **changed: Any) -> None:
    experiment = inference(store, measured=0, **changed)
    for run in experiment.runs():
        mine = run.variant.execution == execution
        plant_run(store, experiment.id, machine="CPU", aftermath=aftermath if mine else None)
