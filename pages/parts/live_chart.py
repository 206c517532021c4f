"""A plotly chart that takes new points without losing the reader's zoom and hidden lines.

`st.plotly_chart` builds its chart anew whenever the data changes. This one hands each new figure
to `Plotly.react` with a constant `uirevision`, in the element that is already there. plotly.js
comes from the route in app.py; text, ground and hover colours come from Streamlit's theme, so the
chart follows the light and dark switch by itself. Bound the number of points before the call.
"""

import json
from importlib.metadata import version
from typing import Any, Protocol

import streamlit as st


class Figure(Protocol):
    """What is needed of a `plotly.graph_objects.Figure`."""

    def to_json(self) -> str | None: ...


JS = """
const REMOVED = ["select2d", "lasso2d", "autoScale2d", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d"];
const CLEAR = "rgba(0,0,0,0)";
const touch = matchMedia("(hover: none)").matches;
let loading;  // one plotly.js for all charts of the page

async function load(source) {
  const url = new URL(source, document.baseURI);
  // Where the route is missing Streamlit answers with its own page, which is no script.
  const answer = await fetch(url, { method: "HEAD" });
  const type = answer.headers.get("content-type") ?? "";
  if (!answer.ok || !type.includes("javascript")) throw new Error(`no script at ${url}`);
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`no script at ${url}`));
    document.head.append(script);
  });
}

function mount(parent) {
  const box = document.createElement("div");
  box.setAttribute("role", "img");
  parent.append(box);
  const chart = { parent, box };
  chart.resized = new ResizeObserver(() => {
    if (chart.drawn && box.offsetWidth) window.Plotly.Plots.resize(box);
  });
  chart.resized.observe(box);
  return chart;
}

function template(parent) {
  const css = getComputedStyle(parent);
  const is = (name) => css.getPropertyValue(`--st-${name}`).trim();
  const font = { family: is("font"), color: is("text-color"), size: 12 };
  const border = is("border-color");
  const axis = { gridcolor: border, linecolor: border, title: { font } };
  return {
    layout: {
      font,
      colorway: is("chart-categorical-colors").split(","),
      paper_bgcolor: CLEAR,
      plot_bgcolor: CLEAR,
      xaxis: axis,
      yaxis: axis,
      hoverlabel: { bgcolor: is("secondary-background-color"), bordercolor: border, font },
      modebar: { bgcolor: CLEAR, color: is("gray-text-color"), activecolor: is("text-color") },
    },
  };
}

async function draw(chart, wanted) {
  const { figure, height, alt, source } = wanted;
  chart.box.style.height = `${height}px`;
  chart.box.setAttribute("aria-label", alt);
  try {
    await (loading ??= load(source));
  } catch {
    loading = undefined;  // the next figure tries again
    chart.box.textContent =
      "The chart cannot be drawn: this server does not offer plotly.min.js. " +
      "Start the dashboard with: streamlit run app.py";
    return;
  }
  // While plotly.js was loading the element may have gone, or a newer figure may have come.
  if (chart.gone || wanted !== chart.wanted) return;
  const theme = template(chart.parent);
  const asked = figure + height + JSON.stringify(theme);
  if (asked === chart.drawn) return;
  if (!chart.drawn) chart.box.textContent = "";
  chart.drawn = asked;
  const { data, layout } = JSON.parse(figure);
  window.Plotly.react(
    chart.box,
    data,
    {
      ...layout,
      template: theme,
      height,
      width: undefined,
      autosize: true,
      uirevision: layout.uirevision ?? "kept",
      // A finger on the chart scrolls the page.
      dragmode: touch ? false : layout.dragmode,
    },
    {
      displaylogo: false,
      displayModeBar: touch ? false : "hover",
      modeBarButtonsToRemove: REMOVED,
      showSendToCloud: false,
      plotlyServerURL: "",
      showTips: false,
    },
  );
}

export default function ({ data, parentElement }) {
  const chart = (parentElement.liveChart ??= mount(parentElement));
  chart.wanted = data;
  draw(chart, data);
  return () => {
    // Streamlit calls this also for a call that a newer one overtook; the element stays then.
    if (parentElement.isConnected) return;
    // No Plotly.purge: a drawing that is under way would fail on it. Nothing else holds the box.
    chart.gone = true;
    chart.resized.disconnect();
  };
}
"""

_component = st.components.v2.component("live_chart", js=JS, isolate_styles=False)

# Read once: it asks the file system.
PLOTLY_JS = f"plotly.min.js?v={version('plotly')}"


def live_chart(figure: Figure | dict[str, Any], key: str, height: int, alt: str) -> None:
    """Draw `figure`, `height` pixels high, into the element called `key`.

    A figure with another `layout.uirevision` than the one before starts with a fresh zoom. Colours
    that the figure leaves open are the theme's; its template is not used. `alt` is read to those
    who cannot see the chart.
    """
    text = json.dumps(figure, allow_nan=False) if isinstance(figure, dict) else figure.to_json()
    _component(
        key=key,
        data={
            "figure": text,
            "height": height,
            "alt": alt,
            "source": PLOTLY_JS,
        },
    )
