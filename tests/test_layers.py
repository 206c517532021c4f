"""Imports point down, never sideways, and each heavy library has one place.

Read from the source, so a forbidden import fails here even where no test runs it. Imports inside
functions count for the layers; those under `if TYPE_CHECKING:` count for nothing.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent

# A module of bench_core may import those of the rows above its own.
LAYERS = (
    {"text_encoding"},
    {
        "units",
        "spec",
        "paths",
        "file_lock",
        "whole_file",
        "free_memory",
        "model_sizes",
        "result_columns",
        "chart_frame",
        "file_words",
    },
    {"device_names", "variant_words"},
    {"events", "source", "table_file", "graph"},
    {"run", "captured", "epoch_columns", "graph_places"},
    {"stats", "imported", "kernel_costs", "graph_picture", "graph_layout"},
    {"measured", "correlation", "graph_dot", "graph_svg", "node_costs", "capture_changes"},
    {"comparison", "column_roles", "neighbours", "graph_fx"},
    {"pairing", "capabilities", "geomeans"},
    {"store_rows", "lacks"},
    {"store", "presets", "sizes", "planner", "estimates", "doubts", "ladder"},
    {"progress", "time_left", "compile_caches", "doctor", "inference_tables", "until_sure"},
    {"time_parts", "late_compiles", "remedies", "replay"},
    {"cause"},
    {"step_causes", "compile_causes"},
    {"child"},
    {"steering"},
    {"worker", "capture_part"},
    {"captures"},
    {"graph_files"},
    {"minimal_cells"},
    {"minimal_run"},
    {"result_csv", "minimal_csv", "foreign_run", "diagnosis", "claims"},
    {"result_cells", "timm_csv", "dynamo_csv", "column_questions"},
    {"columns_csv", "result_epochs", "step_file"},
    {"result_lines"},
    {"result_file"},
    {"imports", "machines", "facts_here"},
    {"file_imports", "claim_evidence", "claim_experiments", "machine_words", "machines_apart"},
    {"claim_rules", "machine_tables"},
    {"claim_trends"},
    {"judging"},
    {
        "figures",
        "batch_figures",
        "iteration_figures",
        "latency_figures",
        "loss_figure",
        "parts_figure",
    },
    {"phase_figure", "saved_figure"},
    {"chart_titles"},
    {"pair_figures", "progress_bar", "comparison_json", "run_options"},
    {"report", "terminal", "followed"},
    {"cli"},
    {"__main__"},
)
RANK = {module: rank for rank, row in enumerate(LAYERS) for module in row}

# What the process that owns torch may use of the rest: it knows no store and no page.
MEASURING_MAY_USE = {"spec", "events", "paths"}

DRAWING = {
    f"bench_core/{name}.py"
    for name in (
        "batch_figures",
        "chart_frame",
        "figures",
        "iteration_figures",
        "latency_figures",
        "loss_figure",
        "pair_figures",
        "parts_figure",
        "phase_figure",
        "report",
        "saved_figure",
    )
}
HOMES = {
    "streamlit": ("app.py", "pages/"),
    "plotly": tuple(DRAWING),
    "sqlite3": ("bench_core/store.py",),
    "torch": ("bench_core/measuring/",),
    "torchvision": ("bench_core/measuring/",),
}
# 1.6 s and 0.5 s to import: inside the function that needs them, except where tables are read.
NOT_AT_THE_TOP = {"scipy": (), "pandas": tuple(DRAWING)}


def sources() -> list[str]:
    found = [*CHECKOUT.glob("bench_core/**/*.py"), *CHECKOUT.glob("pages/**/*.py")]
    return sorted(path.relative_to(CHECKOUT).as_posix() for path in found) + ["app.py"]


@cache
def parsed(file: str) -> ast.Module:
    return ast.parse((CHECKOUT / file).read_text(encoding="utf-8"))


def imports(file: str, *, top_only: bool = False) -> Iterator[str]:
    """Dotted names that a file imports; `from a import b` gives `a.b`, as `b` may be a module."""
    waiting: list[ast.AST] = [parsed(file)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno} is a relative import: name it in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
        elif not (top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            waiting.extend(ast.iter_child_nodes(node))


def core_imports(file: str) -> set[str]:
    """Modules of bench_core that a file imports, without the package's name."""
    return {name.split(".")[1] for name in imports(file) if name.startswith("bench_core.")}


def core_modules() -> list[str]:
    return [Path(file).stem for file in sources() if Path(file).parent.as_posix() == "bench_core"]


def test_every_module_has_a_layer() -> None:
    homeless = set(core_modules()) - set(RANK) - {"__init__"}
    assert not homeless, f"add {sorted(homeless)} to LAYERS, in the row below all that they import"


@pytest.mark.parametrize("module", [name for name in core_modules() if name in RANK])
def test_imports_point_down(module: str) -> None:
    used = core_imports(f"bench_core/{module}.py")
    assert "measuring" not in used, "bench_core.measuring is a process, never an import"
    wrong = {name for name in used if RANK.get(name, -1) >= RANK[module]}
    assert not wrong, f"bench_core/{module}.py imports {sorted(wrong)}, not below it"


def test_measuring_knows_the_spec_and_the_events_only() -> None:
    for file in sources():
        if file.startswith("bench_core/measuring/"):
            wrong = core_imports(file) - MEASURING_MAY_USE - {"measuring"}
            assert not wrong, f"{file} imports {sorted(wrong)}: pass it in as lines instead"


def test_pages_reach_torch_by_no_import() -> None:
    for file in sources():
        if file.startswith(("pages/", "app.py")):
            assert "measuring" not in core_imports(file), f"{file} imports bench_core.measuring"


@pytest.mark.parametrize("library", HOMES)
def test_library_has_one_home(library: str) -> None:
    for file in sources():
        if not file.startswith(HOMES[library]):
            named = {name for name in imports(file) if name.split(".")[0] == library}
            assert not named, f"{file} imports {sorted(named)}; its place is {HOMES[library]}"


@pytest.mark.parametrize("library", NOT_AT_THE_TOP)
def test_slow_library_is_imported_where_it_is_needed(library: str) -> None:
    for file in sources():
        if file.startswith("bench_core/") and not file.startswith(NOT_AT_THE_TOP[library]):
            named = {name for name in imports(file, top_only=True) if name.startswith(library)}
            assert not named, f"{file} imports {sorted(named)} at its top"


def test_command_line_starts_without_the_dashboard() -> None:
    heavy = {"torch", "streamlit", "plotly", "pandas", "scipy"}
    code = f"import sys, bench_core.cli; print(*sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
