"""The heaviest kernels with eager's time beside, and the generated code of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os.path import commonprefix

import pandas as pd
import streamlit as st

from bench_core import captures
from bench_core.capture_changes import computes
from bench_core.captured import Capture, CodeFile, Kernel
from bench_core.graph import short_operator
from bench_core.graph_picture import cut, cut_inside
from bench_core.units import counted, seconds_text
from pages.parts.compiler_words import eager_text
from pages.parts.in_address import from_address, put_into_address
from pages.parts.text import plain

HEAVIEST = 10
LONGEST_NAME = 40  # characters of a column that leaves room for the share beside it
LANGUAGES = {"C++": "cpp", "Triton": "python", "extern": "python"}
MOST_SHOWN_LINES = 400
state = st.session_state


def heaviest(capture: Capture, kernels: Sequence[Kernel]) -> None:
    """The ten that take most of the step; a click on a row shows its code below."""
    timed = [kernel for kernel in kernels if kernel.seconds is not None]
    whole = capture.cost.step_seconds if capture.cost else 0.0
    step = "step" if capture.spec.workload.task == "train" else "call"
    if timed and whole:
        rows = _heaviest_first(timed)[:HEAVIEST]
        share = sum(kernel.seconds or 0.0 for kernel in rows) / whole
        st.markdown(
            f"**The heaviest kernels** :gray[{100 * share:.0f}\u00a0% of the {step}]",
            help=f"Seconds of a steady {step}, all calls of the kernel together: its share of "
            f"profiled {step}s, of the time that one takes without a profiler. Eager's time is "
            "that of whole modules in the same direction, so it stands beside all kernels that "
            "compute them. Both are estimates.",
        )
    else:
        rows = _heaviest_first(kernels)[:HEAVIEST]
        st.markdown("**The largest kernels** :gray[by operators; their time was not measured]")
    if not rows:
        st.caption("No kernel was generated.")
        return
    chosen = st.dataframe(
        _table(rows, whole if timed else 0.0, step),
        hide_index=True,
        height="content",
        placeholder="",
        on_select="rerun",
        selection_mode="single-cell",
        key=f"heaviest_{capture.key}",
        column_config={
            "Kernel": st.column_config.TextColumn(pinned=True, width=235),
            "Operators": st.column_config.NumberColumn(width=85),
            f"Share of {step}": st.column_config.ProgressColumn(
                min_value=0.0, max_value=_most(rows, whole), format="%.1f %%", width=115
            ),
            "Eager takes": st.column_config.TextColumn(
                width=90,
                help="Eager's time for the same modules against the kernel's. Kernels that share "
                "modules are compared together: the number in brackets says how many they are. "
                "Empty where a loop only copies tensors for a library.",
            ),
        },
        alt="The heaviest kernels, what they compute and the time of a step in them",
    )
    picked = [row for row, _ in chosen["selection"]["cells"]]
    if picked != state.get("compiler_row"):
        state.compiler_row = picked
        if picked:
            state.kernel = kernel_id(rows[picked[0]])
            show_code()


def _heaviest_first(kernels: Sequence[Kernel]) -> list[Kernel]:
    """By seconds of the step; those that were not timed follow, by their operators."""
    return sorted(kernels, key=lambda one: (-(one.seconds or 0.0), -len(one.origins)))


def _most(rows: Sequence[Kernel], whole: float) -> float:
    """Per cent of the step in the heaviest one: as far as a bar may reach."""
    return 100 * max((kernel.seconds or 0.0) for kernel in rows) / whole if whole else 100.0


def _table(rows: Sequence[Kernel], whole: float, step: str) -> pd.DataFrame:
    table: dict[str, list[object]] = {
        "Kernel": [cut_inside(name_of(kernel), LONGEST_NAME) for kernel in rows]
    }
    if whole:
        table[f"Share of {step}"] = [100 * (kernel.seconds or 0.0) / whole for kernel in rows]
        table["Eager takes"] = [eager_text(kernel) for kernel in rows]
        table["Time"] = [seconds_text(kernel.seconds) for kernel in rows]
        table["Together"] = [seconds_text(kernel.together_seconds) for kernel in rows]
        table["Eager"] = [seconds_text(kernel.eager_seconds) for kernel in rows]
    else:  # they stand by their operators then, which have to be seen
        table["Operators"] = [len(kernel.origins) for kernel in rows]
    table["Made by"] = ["a library" if one.kind == "extern" else one.kind for one in rows]
    table["Direction"] = [kernel.part for kernel in rows]
    table.setdefault("Operators", [len(kernel.origins) for kernel in rows])
    table["Calls"] = [len(kernel.calls) for kernel in rows]
    table["Modules"] = [cut(", ".join(filter(None, kernel.modules)), 80) for kernel in rows]
    return pd.DataFrame(table)


def name_of(kernel: Kernel) -> str:
    """Where it is and what it computes: `layer1.0.conv1 · convolution`, `bn1 … relu · add`."""
    modules = [module for module in kernel.modules if module]
    of_library = kernel.kind == "extern"
    where = modules[-1] if modules and (of_library or len(modules) == 1) else ""
    if len(modules) > 1 and not of_library:
        first, last = modules[0].split("."), modules[-1].split(".")
        same = len(commonprefix([first, last[:-1]]))
        where = f"{modules[0]} … {'.'.join(last[same:])}"
    names = [short_operator(kernel.name)] if of_library else computes(kernel).split(", ")
    more = f" +{len(names) - 2}" if len(names) > 3 else ""
    what = cut(", ".join(names[: 2 if more else 3]) + more, 48)
    return f"{where} · {what}" if where else what


def kernel_id(kernel: Kernel) -> str:
    """Known again in the address: graph, direction, and the line of its definition or call."""
    return f"{kernel.number}-{kernel.part}-{kernel.first_line}"


def show_code() -> None:
    state.compiler_code = True


def code(capture: Capture, kernels: Sequence[Kernel], *, at_once: bool) -> None:
    """The kernel picker, what the kernel was made from, and its code: at once, or when asked for.

    Whoever came for the pictures does not wait for the second that a browser needs to load what
    colours code.
    """
    if not capture.code:
        st.caption("No code was generated.")
        return
    by_id = {kernel_id(kernel): kernel for kernel in kernels}
    if by_id:
        names = {one: f"{name_of(kernel)} · {kernel.part}" for one, kernel in by_id.items()}
        usual = kernel_id(_heaviest_first(kernels)[0])
        from_address("kernel", usual, by_id)
        chosen = st.selectbox(
            "Kernel",
            list(by_id),
            format_func=names.__getitem__,
            key="kernel",
            help="In the order of the calls. A click on a row of the table chooses one too.",
        )
        put_into_address("kernel", chosen if chosen != usual else "")
        kernel = by_id[chosen]
        _facts(kernel, "step" if capture.spec.workload.task == "train" else "call")
        if at_once or chosen != usual or state.get("compiler_code"):
            _source(capture, kernel)
        else:
            st.button("Show its code", icon=":material/code:", on_click=show_code, key="code")
    with st.container(horizontal=True, gap="small"):
        for file in capture.code:
            _download(capture, file)
        if capture.cost and capture.cost.trace:
            st.download_button(
                "Chrome trace",
                data=partial(_bytes, capture, capture.cost.trace),
                file_name=f"{capture.key}-trace.json.gz",
                mime="application/gzip",
                icon=":material/download:",
                type="tertiary",
                on_click="ignore",
                key="download_trace",
                help="Of the profiled steps, for Perfetto or chrome://tracing.",
            )


def _source(capture: Capture, kernel: Kernel) -> None:
    shown = captures.source_of(capture, kernel).splitlines()
    st.code(
        "\n".join(shown[:MOST_SHOWN_LINES]),
        language=LANGUAGES[kernel.kind],
        line_numbers=False,
        wrap_lines=False,
        height=min(420, 40 + 20 * len(shown)),
    )
    if len(shown) > MOST_SHOWN_LINES:
        st.caption(f"The first {MOST_SHOWN_LINES} of {len(shown)} lines; the download has all.")


def _facts(kernel: Kernel, step: str) -> None:
    words = [f"**{plain(kernel.name)}**"]
    made = "a call of a library" if kernel.kind == "extern" else f"{kernel.kind}"
    words.append(made)
    lines = ", ".join(map(str, kernel.calls[:6])) + (" …" if len(kernel.calls) > 6 else "")
    words.append(f"called in line {lines}" if kernel.calls else "never called")
    if kernel.seconds is not None:
        words.append(f"{seconds_text(kernel.seconds)} a {step}")
    st.markdown(" · ".join(words))
    if kernel.origins:
        with st.expander(f"Made from {counted(len(kernel.origins), 'operator')}"):
            st.text(", ".join(kernel.origins))
            modules = [module for module in kernel.modules if module]
            if modules:
                st.text("in " + ", ".join(modules))


def _download(capture: Capture, file: CodeFile) -> None:
    several = len(capture.code) > 1
    graph = f"graph {file.number} " if len(capture.frames) > 1 else ""
    name = f"{graph}{file.part}" if several else ""
    st.download_button(
        f"Code {name}".strip(),
        data=partial(captures.read_file, capture, file.file),
        file_name=f"{capture.spec.workload.model_name}-{file.number}-{file.part}.py",
        mime="text/x-python",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        key=f"download_{file.file}",
        help=f"{counted(file.lines, 'line')}: the whole module as TorchInductor wrote it.",
    )


def _bytes(capture: Capture, name: str) -> bytes:
    return (captures.folder_of(capture.key) / name).read_bytes()
