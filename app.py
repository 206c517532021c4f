"""Start of the dashboard: `streamlit run app.py`.

Hands Streamlit the frame, pages/_entry.py, and serves plotly.js from the installed package to the
live charts. The frame is a script of its own because Streamlit lists a `pages` folder that lies
beside the script it runs: the first session after each start that opened a page by its address
got that page without the frame.
"""

import importlib.util
import runpy
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route
from streamlit.runtime.scriptrunner import get_script_run_ctx

ENTRY = Path(__file__).resolve().parent / "pages" / "_entry.py"


def plotly_js() -> Path:
    """The plotly.min.js of the installed package, found without importing plotly."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("plotly is not installed: pip install -r requirements.txt")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def serve_plotly_js(request: Request) -> FileResponse:
    # The charts ask for it with plotly's version in the query, so it can be kept for good.
    return FileResponse(
        plotly_js(),
        media_type="text/javascript",
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )


if get_script_run_ctx(suppress_warning=True) is None:
    # Any folder: the page asks beside its own address, which server.baseUrlPath may have moved.
    app = st.App(ENTRY, routes=[Route("/{folder:path}plotly.min.js", serve_plotly_js)])
else:  # AppTest runs this file as the script of a session
    runpy.run_path(str(ENTRY), run_name="__main__")
