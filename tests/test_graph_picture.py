"""Graphs as pictures: what is collapsed, opened, framed and left out; places without overlap."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_core import captures, graph_picture
from bench_core.captured import Cost, Frame, Kernel, ModuleCost
from bench_core.graph import Graph, Node
from bench_core.graph_dot import dot
from bench_core.graph_layout import GAP_X, Size, layout
from bench_core.graph_picture import BREAK, EXTERN, PLAIN, SHADES, Picture, calls_picture, picture
from bench_core.graph_svg import svg
from bench_core.node_costs import node_seconds
from tests.planted_capture import BREAK as PLANTED_BREAK
from tests.planted_capture import plant_capture

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def capture(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHES", str(tmp_path))
    return plant_capture(blocks=4)


def graph_of(capture, stage: str, part: str = "forward") -> Graph:
    [file] = capture.at(stage, part)
    return captures.read_graph(capture, file)


def labels(shown: Picture) -> list[str]:
    return [box.label.replace("\u00a0", " ") for box in shown.boxes]


def test_a_large_graph_starts_collapsed_by_module(capture):
    shown = picture(graph_of(capture, "after_passes"))
    assert labels(shown) == [f"layer.{one} · 9 operators" for one in range(4)]
    assert shown.edges == (
        ("layer.0", "layer.1"),
        ("layer.1", "layer.2"),
        ("layer.2", "layer.3"),
    )
    assert "1 input (weights, buffers, data) are not drawn" in shown.left_out


def test_a_module_opens_into_its_parts_and_these_into_operators(capture):
    graph = graph_of(capture, "after_passes")
    shown = picture(graph, opened={"layer.1"})
    assert "layer.1.bn · 7 operators" in labels(shown)
    assert "layer.2 · 9 operators" in labels(shown)
    shown = picture(graph, opened={"layer.1", "layer.1.bn", "layer.1.conv"})
    assert labels(shown)[1:4] == ["convolution", "var_mean", "add"]


def test_the_joint_graph_tells_a_modules_forward_from_its_backward(capture):
    shown = picture(graph_of(capture, "joint", "both"))
    names = [box.name for box in shown.boxes]
    assert names[0] == "layer.0"
    assert names[-1] == "layer.0 backward"
    assert len(names) == 8


def test_what_was_fused_is_framed_and_coloured_alike(capture):
    opened = {"layer.0", "layer.0.bn", "layer.0.conv"}
    shown = picture(graph_of(capture, "before_fusion"), opened=opened)
    framed = [box for box in shown.boxes if box.frame]
    assert len(framed) == 7
    assert len({(box.frame, box.fill) for box in framed}) == 1
    assert shown.frames[framed[0].frame].startswith("7 fused: batch_norm_relu")
    [call] = [box for box in shown.boxes if box.name == "op0"]
    assert call.fill == EXTERN[0] and "left to a library" in call.tip
    after = picture(graph_of(capture, "after_fusion"), opened=opened)
    assert "var_mean, add +3 · 7 fused" in labels(after)


def test_a_loop_that_stayed_alone_has_one_colour_before_and_after():
    loop = Node(name="op0", op="loop", target="sin, add", group="op0")
    before = picture(Graph(stage="before_fusion", nodes=(loop,)))
    after = picture(Graph(stage="after_fusion", nodes=(loop.changed(group=""),)))
    assert before.boxes[0].fill == after.boxes[0].fill == PLAIN[0]


def test_inputs_are_called_as_the_model_calls_them():
    names = {
        "l_self_modules_layer1_modules_0_modules_conv1_parameters_weight_": "layer1.0.conv1.weight",
        "l_self_modules_bn_buffers_num_batches_tracked_": "bn.num_batches_tracked",
        "l_self_parameters_scale_": "scale",
        "l_x_": "x",
        "primals_1": "primals_1",
        "s34": "s34",
    }
    nodes = tuple(Node(name=name, op="placeholder") for name in names)
    assert labels(picture(Graph(stage="dynamo", nodes=nodes))) == list(names.values())


def test_recomputed_operators_are_marked(capture):
    graph = graph_of(capture, "before_passes", "backward")
    shown = picture(graph, opened={"layer.2", "layer.2.bn"})
    [box] = [box for box in shown.boxes if box.dashed]
    assert box.label == "var_mean · recomputed"
    assert "computed again in the backward" in box.tip


def test_time_darkens_and_stands_in_the_label(capture):
    capture = plant_capture(blocks=20)
    graph = graph_of(capture, "after_fusion")
    seconds = node_seconds(graph, captures.read_kernels(capture), capture.cost)
    assert sum(seconds.values()) == pytest.approx(0.005 * 20 + 0.0001 * 190)
    shown = picture(
        graph,
        opened={"layer.19"},
        color="time",
        seconds=seconds,
        step_seconds=capture.cost.step_seconds,
    )
    fills = {box.name: box.fill for box in shown.boxes}
    palest, darkest = (look[0] for _, look in (SHADES[0], SHADES[-1]))
    assert fills["layer.0"] != palest
    assert fills["layer.18"] == darkest
    assert fills["layer.19.bn"] != fills["layer.19.conv"]
    assert labels(shown)[0] == "layer.0 · 1 loop, 1 library call · 2 %"


@pytest.mark.parametrize("stage", ["before_fusion", "after_fusion", "after_passes", "dynamo"])
def test_every_stage_has_the_kernels_seconds(capture, stage):
    graph = graph_of(capture, stage)
    seconds = node_seconds(graph, captures.read_kernels(capture), capture.cost)
    assert seconds and all(value > 0 for value in seconds.values())
    assert set(seconds) <= {node.name for node in graph.nodes}
    assert node_seconds(graph, (), None) == {}


def test_a_kernels_time_is_shared_among_the_nodes_that_the_graph_has():
    """`copy` came after this graph: its share goes to what the kernel computes here."""
    graph = Graph(stage="joint", nodes=(Node(name="sin", op="call_function"),))
    fields = {"number": 0, "part": "forward", "kind": "C++", "file": "", "first_line": 1}
    kernels = [
        Kernel(name="k", last_line=1, origins=origins, seconds=4.0, **fields)
        for origins in (("sin", "copy"), ("copy",))
    ]
    assert node_seconds(graph, kernels, None) == {"sin": 4.0}


def test_a_module_that_a_break_divides_has_in_each_graph_its_own_time():
    nodes = (Node(name="add", op="call_function", module="block"),)
    cost = Cost(
        steps=5, step_seconds=9, eager_step_seconds=9, kernel_seconds=5, extern_seconds=0,
        modules=tuple(
            ModuleCost(module="block", part=part, number=number, seconds=seconds)
            for part, number, seconds in (
                ("forward", 0, 1.0), ("forward", 1, 3.0), ("backward", 1, 2.0),
                ("backward", 0, None),
            )
        ),
    )  # fmt: skip
    for number, seconds in ((0, 1.0), (1, 5.0)):
        graph = Graph(stage="dynamo", number=number, nodes=nodes)
        assert node_seconds(graph, (), cost) == {"add": seconds}


def test_more_boxes_than_there_is_room_for_are_left_out_with_a_sentence(capture, monkeypatch):
    monkeypatch.setattr(graph_picture, "MOST_BOXES", 3)
    shown = picture(graph_of(capture, "after_passes"))
    assert len(shown.boxes) == 3
    assert "The first 3 of 4 boxes are drawn" in shown.left_out
    names = {box.name for box in shown.boxes}
    assert all({one, other} <= names for one, other in shown.edges)


def test_a_small_graph_is_drawn_whole_with_its_inputs():
    nodes = (
        Node(name="x", op="placeholder"),
        Node(name="sin", op="call_function", target="torch.sin", inputs=("x",)),
        Node(name="output", op="output", inputs=("sin",)),
    )
    shown = picture(Graph(stage="dynamo", nodes=nodes))
    assert labels(shown) == ["x", "sin", "output"]
    assert shown.left_out == ""


def test_a_row_of_inputs_that_would_make_a_small_graph_wide_is_left_out_and_counted():
    inputs = tuple(Node(name=f"p{n}", op="placeholder") for n in range(7))
    linear = Node(
        name="linear",
        op="call_function",
        target="F.linear",
        inputs=tuple(node.name for node in inputs),
    )
    output = Node(name="output", op="output", inputs=("linear",))
    shown = picture(Graph(stage="dynamo", nodes=(*inputs, linear, output)))
    assert labels(shown) == ["linear", "output"] and shown.edges == (("linear", "output"),)
    assert shown.left_out == "7 inputs (weights, buffers, data) are not drawn."
    shown = picture(Graph(stage="dynamo", nodes=(*inputs[1:], linear, output)))
    assert len(shown.boxes) == 8 and shown.left_out == ""


def test_operators_beside_one_module_are_taken_for_its_own_and_between_two_they_stand_apart():
    many = [
        Node(name=f"a{n}", op="call_function", target="aten.a.x", module="one", inputs=("cast",))
        for n in range(20)
    ]
    more = [
        Node(name=f"b{n}", op="call_function", target="aten.b.x", module="two", inputs=("view",))
        for n in range(20)
    ]
    nodes = (
        Node(name="cast", op="call_function", target="aten.cast.x", inputs=("x",)),
        *many,
        Node(name="view", op="call_function", target="aten.view.x", inputs=("a0",)),
        *more,
    )
    shown = picture(Graph(stage="joint", nodes=nodes))
    assert labels(shown) == ["one · 21 operators", "view", "two · 20 operators"]


def test_graphs_stand_in_call_order_with_their_breaks_in_red():
    frames = [
        Frame(number=0, nodes=3, operators=2, breaks=(PLANTED_BREAK,)),
        Frame(number=1, nodes=5, operators=4, function="forward", place="model.py:8", guards=7),
    ]
    shown = calls_picture(frames)
    assert shown.boxes[2].tip == "forward at model.py:8\n7 guards, checked before each call"
    assert [box.fill == BREAK[0] for box in shown.boxes] == [False, True, False]
    assert shown.boxes[1].label == "break · model.py:7: data-dependent jump"
    assert len(shown.edges) == 2


HOSTILE = '<script>alert("x")</script> & "quotes" \\'


def test_names_of_a_users_model_are_text_in_svg_and_dot():
    nodes = (
        Node(name=HOSTILE, op="call_function", target=HOSTILE, module=HOSTILE, place=HOSTILE),
        Node(name="b", op="call_function", target="torch.sin", inputs=(HOSTILE,)),
    )
    shown = picture(Graph(stage="dynamo", nodes=nodes))
    drawn = ElementTree.fromstring(svg(shown))
    assert not list(drawn.iter(f"{SVG}script"))
    assert HOSTILE in "".join(title.text or "" for title in drawn.iter(f"{SVG}title"))
    assert '\\"quotes\\" \\\\' in dot(shown)


def test_svg_holds_every_box_with_what_a_click_opens(capture):
    shown = picture(graph_of(capture, "before_fusion"), opened={"layer.0", "layer.0.bn"})
    drawn = ElementTree.fromstring(svg(shown))
    boxes = {one.get("data-box"): one.get("data-opens") for one in drawn.iter(f"{SVG}g")}
    assert boxes == {box.name: box.opens or None for box in shown.boxes}
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    for rect in drawn.iter(f"{SVG}rect"):
        assert min(float(rect.get("x", 0)), float(rect.get("y", 0))) >= -6.01
        assert float(rect.get("x", 0)) + float(rect.get("width", 0)) <= width
        assert float(rect.get("y", 0)) + float(rect.get("height", 0)) <= height


def test_dot_has_a_cluster_for_each_fused_group(capture):
    opened = {"layer.0", "layer.0.bn", "layer.1", "layer.1.bn"}
    text = dot(picture(graph_of(capture, "before_fusion"), opened=opened))
    assert text.count("subgraph cluster_") == 2
    assert text.count("{") == text.count("}")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 25).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60),
        )
    )
)
def test_boxes_never_overlap_and_every_edge_has_a_route(drawn):
    count, pairs = drawn
    sizes = {f"n{one}": Size(40.0 + one, 20.0) for one in range(count)}
    edges = [(f"n{one}", f"n{other}") for one, other in pairs if one != other]
    found = layout(sizes, edges)
    assert set(found.centers) == set(sizes)
    assert set(found.routes) == set(edges)
    rows: dict[float, list[str]] = {}
    for name, (x, y) in found.centers.items():
        assert x - sizes[name].width / 2 >= -1e-6
        assert x + sizes[name].width / 2 <= found.size.width + 1e-6
        assert y + sizes[name].height / 2 <= found.size.height + 1e-6
        rows.setdefault(y, []).append(name)
    for row in rows.values():
        row.sort(key=lambda name: found.centers[name][0])
        for one, other in pairwise(row):
            apart = found.centers[other][0] - found.centers[one][0]
            assert apart >= (sizes[one].width + sizes[other].width) / 2 + GAP_X - 1e-6


def test_edges_without_a_circle_all_point_down():
    sizes = {name: Size(50.0, 20.0) for name in "dcba"}
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]
    found = layout(sizes, edges)
    for one, other in edges:
        assert found.centers[one][1] < found.centers[other][1]
