"""A drawn graph that is looked into: dragged, zoomed, on the whole screen, opened by a click.

`st.graphviz_chart` neither zooms nor tells of clicks. This one shows an SVG of graph_svg.py in an
element that scrolls, so that a finger moves it too, and keeps zoom and place when a module opens.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

CSS = """
.graph { position: relative; }
.graph .pane { overflow: auto; overscroll-behavior: contain; cursor: grab; text-align: center;
  scrollbar-width: thin; }
.graph .pane.dragged { cursor: grabbing; user-select: none; }
.graph:fullscreen { background: var(--st-background-color); }
.graph:fullscreen .pane { height: 100vh; max-height: 100vh !important; }
.graph svg { display: inline-block; vertical-align: top; }
.graph .box[data-opens] { cursor: zoom-in; }
.graph .box:hover rect { stroke: var(--st-text-color); stroke-width: 1.5; }
.graph .bar { display: flex; justify-content: flex-end; gap: 2px; padding-top: 4px; }
.graph:fullscreen .bar { position: absolute; right: 12px; bottom: 12px; }
.graph button { width: 28px; height: 28px; border: 1px solid var(--st-border-color);
  border-radius: 6px; background: var(--st-background-color); color: var(--st-text-color);
  font: 15px var(--st-font); line-height: 1; cursor: pointer; padding: 0; }
"""

JS = """
const LEAST = 0.15, MOST = 4;
const LARGEST = 1.1, READABLE = 0.84;  // texts of 12 px are legible from 10 px on

function mount(parent) {
  const root = document.createElement("div");
  root.className = "graph";
  const pane = document.createElement("div");
  pane.className = "pane";
  pane.tabIndex = 0;
  const bar = document.createElement("div");
  bar.className = "bar";
  root.append(pane, bar);
  parent.append(root);
  const view = { root, pane, scale: 1 };
  const button = (sign, words, act) => {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = sign;
    one.title = words;
    one.setAttribute("aria-label", words);
    one.addEventListener("click", act);
    bar.append(one);
  };
  button("+", "Zoom in", () => zoom(view, 1.3));
  button("−", "Zoom out", () => zoom(view, 1 / 1.3));
  button("□", "Fit the whole graph", () => fit(view, LEAST));
  button("⛶", "Whole screen", () =>
    document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen());
  pane.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(view, event.deltaY < 0 ? 1.15 : 1 / 1.15, event);
  }, { passive: false });
  let from = null;
  pane.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button) return;
    from = { x: event.clientX, y: event.clientY, left: pane.scrollLeft, top: pane.scrollTop };
    view.moved = false;
  });
  pane.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [x, y] = [event.clientX - from.x, event.clientY - from.y];
    if (Math.abs(x) + Math.abs(y) > 4) view.moved = true;
    if (!view.moved) return;
    pane.classList.add("dragged");
    pane.scrollLeft = from.left - x;
    pane.scrollTop = from.top - y;
  });
  const drop = () => { from = null; pane.classList.remove("dragged"); };
  pane.addEventListener("pointerup", drop);
  pane.addEventListener("pointerleave", drop);
  const choose = (event) => {
    const box = event.target.closest?.("[data-box]");
    if (!box || view.moved) { view.moved = false; return; }
    const { opens, box: name } = box.dataset;
    view.tell(opens ? "opened" : "picked", opens || name);
  };
  pane.addEventListener("click", choose);
  pane.addEventListener("keydown", (event) => {
    if (event.key === "Enter") choose(event);
  });
  return view;
}

function size(view) {
  view.svg.setAttribute("width", view.natural.width * view.scale);
  view.svg.setAttribute("height", view.natural.height * view.scale);
}

// The whole graph; where that would be smaller than `least`, its width, else its top.
function fit(view, least) {
  const { pane, natural } = view;
  const wide = (pane.clientWidth - 16) / natural.width;
  const room = document.fullscreenElement ? pane.clientHeight : view.height;
  const high = (room - 16) / natural.height;
  const whole = Math.min(LARGEST, wide, high);
  view.scale = whole >= least ? whole : Math.min(LARGEST, Math.max(least, wide));
  size(view);
  pane.scrollTop = 0;
  const middles = [...view.svg.querySelectorAll(".box rect")]
    .filter((box) => box.y.baseVal.value * view.scale < pane.clientHeight)
    .map((box) => box.x.baseVal.value + box.width.baseVal.value / 2)
    .sort((one, other) => one - other);
  if (!middles.length) return;
  const at = middles[Math.floor(middles.length / 2)] - view.svg.viewBox.baseVal.x;
  pane.scrollLeft = at * view.scale - pane.clientWidth / 2;
}

function zoom(view, factor, at) {
  const { pane } = view;
  const scale = Math.min(MOST, Math.max(LEAST, view.scale * factor));
  const by = scale / view.scale;
  const frame = pane.getBoundingClientRect();
  const x = at ? at.clientX - frame.left : pane.clientWidth / 2;
  const y = at ? at.clientY - frame.top : pane.clientHeight / 2;
  const [left, top] = [pane.scrollLeft + x, pane.scrollTop + y];
  view.scale = scale;
  size(view);
  pane.scrollLeft = left * by - x;
  pane.scrollTop = top * by - y;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = (parentElement.graphView ??= mount(parentElement));
  view.tell = setTriggerValue;
  view.height = data.height;
  view.pane.style.maxHeight = `${data.height}px`;
  if (data.svg === view.drawn) return;
  const first = data.picture !== view.picture;
  view.drawn = data.svg;
  view.picture = data.picture;
  const made = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement;
  view.svg = document.importNode(made, true);
  view.svg.setAttribute("role", "img");
  view.svg.setAttribute("aria-label", data.alt);
  view.natural = { width: made.width.baseVal.value, height: made.height.baseVal.value };
  const { scrollLeft, scrollTop } = view.pane;
  view.pane.replaceChildren(view.svg);
  if (first) {
    fit(view, READABLE);
  } else {
    size(view);
    view.pane.scrollLeft = scrollLeft;
    view.pane.scrollTop = scrollTop;
  }
}
"""

_component = st.components.v2.component("graph_view", css=CSS, js=JS, isolate_styles=False)


def graph_view(
    svg: str,
    *,
    key: str,
    picture: str,
    height: int,
    alt: str,
    on_open: Callable[[str], None],
    on_pick: Callable[[str], None],
) -> None:
    """Draw `svg`, at most `height` pixels high. Another name as `picture` starts with a fresh zoom.

    `on_open` is given the module of a box that was clicked, `on_pick` the name of one that holds
    nothing more.
    """

    def clicked(act: Callable[[str], None], name: str) -> None:
        told = st.session_state[key]
        if value := told.get(name):
            act(str(value))

    _component(
        key=key,
        data={"svg": svg, "height": height, "alt": alt, "picture": picture},
        on_opened_change=lambda: clicked(on_open, "opened"),
        on_picked_change=lambda: clicked(on_pick, "picked"),
    )


def download(
    label: str, data: str | Callable[[], str], name: str, mime: str = "text/plain"
) -> None:
    """A file of the picture; `data` may be made on the click."""
    st.download_button(
        label,
        data=data,
        file_name=name.replace(":", "-").replace("/", "-"),
        mime=mime,
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        key=f"download {label} {name}",
    )
