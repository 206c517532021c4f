"""How large models are, for a guess at durations before anything has been measured.

Sources: `meta` of torchvision's own weights (multiply-adds, scaled to 224 px, and parameters), and
a count of the modules without children; for yolov7 in deploy form a count too (52.3 billion at
640 px). Our own two small models, which are not bound by their multiply-adds, stand here with what
their time on a CPU amounts to.
"""

from __future__ import annotations

from typing import NamedTuple


class Size(NamedTuple):
    """Forward multiply-adds of one image of 224 px in billions, parameters in millions, layers."""

    multiply_adds: float
    parameters: float
    layers: int


UNKNOWN = Size(4.0, 25.0, 120)
SIZES: dict[str, Size] = {
    "small_cnn": Size(0.08, 0.04, 20),
    "pointwise_cnn": Size(1.3, 0.03, 24),
    "yolov7": Size(6.4, 36.9, 277),
    "alexnet": Size(0.71, 61.1, 19),
    "convnext_base": Size(15.36, 88.6, 300),
    "convnext_large": Size(34.36, 197.8, 300),
    "convnext_small": Size(8.68, 50.2, 300),
    "convnext_tiny": Size(4.46, 28.6, 156),
    "densenet121": Size(2.83, 8.0, 366),
    "densenet161": Size(7.73, 28.7, 486),
    "densenet169": Size(3.36, 14.1, 510),
    "densenet201": Size(4.29, 20.0, 606),
    "efficientnet_b0": Size(0.39, 5.3, 229),
    "efficientnet_b1": Size(0.6, 7.8, 324),
    "efficientnet_b2": Size(0.66, 9.1, 324),
    "efficientnet_b3": Size(1.02, 12.2, 366),
    "efficientnet_b4": Size(1.53, 19.3, 450),
    "efficientnet_b5": Size(2.48, 30.4, 545),
    "efficientnet_b6": Size(3.43, 43.0, 629),
    "efficientnet_b7": Size(5.26, 66.3, 766),
    "efficientnet_v2_l": Size(12.21, 118.5, 970),
    "efficientnet_v2_m": Size(5.35, 54.1, 696),
    "efficientnet_v2_s": Size(2.85, 21.5, 484),
    "googlenet": Size(1.5, 6.6, 190),
    "inception_v3": Size(3.21, 27.2, 290),
    "maxvit_t": Size(5.56, 30.9, 413),
    "mnasnet0_5": Size(0.1, 2.2, 140),
    "mnasnet0_75": Size(0.21, 3.2, 140),
    "mnasnet1_0": Size(0.31, 4.4, 140),
    "mnasnet1_3": Size(0.53, 6.3, 140),
    "mobilenet_v2": Size(0.3, 3.5, 140),
    "mobilenet_v3_large": Size(0.22, 5.5, 167),
    "mobilenet_v3_small": Size(0.06, 2.5, 140),
    "regnet_x_16gf": Size(15.94, 54.3, 211),
    "regnet_x_1_6gf": Size(1.6, 9.2, 175),
    "regnet_x_32gf": Size(31.74, 107.8, 237),
    "regnet_x_3_2gf": Size(3.18, 15.3, 238),
    "regnet_x_400mf": Size(0.41, 5.5, 211),
    "regnet_x_800mf": Size(0.8, 7.3, 157),
    "regnet_x_8gf": Size(8.0, 39.6, 220),
    "regnet_y_128gf": Size(127.46, 644.8, 370),
    "regnet_y_16gf": Size(15.91, 83.6, 265),
    "regnet_y_1_6gf": Size(1.61, 11.2, 391),
    "regnet_y_32gf": Size(32.28, 145.0, 278),
    "regnet_y_3_2gf": Size(3.18, 19.4, 307),
    "regnet_y_400mf": Size(0.4, 4.3, 237),
    "regnet_y_800mf": Size(0.83, 6.4, 209),
    "regnet_y_8gf": Size(8.47, 39.4, 251),
    "resnet101": Size(7.8, 44.5, 245),
    "resnet152": Size(11.51, 60.2, 364),
    "resnet18": Size(1.81, 11.7, 52),
    "resnet34": Size(3.66, 21.8, 92),
    "resnet50": Size(4.09, 25.6, 126),
    "resnext101_32x8d": Size(16.41, 88.8, 245),
    "resnext101_64x4d": Size(15.46, 83.5, 245),
    "resnext50_32x4d": Size(4.23, 25.0, 126),
    "shufflenet_v2_x0_5": Size(0.04, 1.4, 164),
    "shufflenet_v2_x1_0": Size(0.14, 2.3, 164),
    "shufflenet_v2_x1_5": Size(0.3, 3.5, 164),
    "shufflenet_v2_x2_0": Size(0.58, 7.4, 164),
    "squeezenet1_0": Size(0.82, 1.2, 56),
    "squeezenet1_1": Size(0.35, 1.2, 56),
    "swin_b": Size(15.43, 87.8, 206),
    "swin_s": Size(8.74, 49.6, 206),
    "swin_t": Size(4.49, 28.3, 110),
    "swin_v2_b": Size(15.56, 87.9, 278),
    "swin_v2_s": Size(8.84, 49.7, 278),
    "swin_v2_t": Size(4.55, 28.4, 146),
    "vgg11": Size(7.61, 132.9, 29),
    "vgg11_bn": Size(7.61, 132.9, 37),
    "vgg13": Size(11.31, 133.0, 33),
    "vgg13_bn": Size(11.31, 133.1, 43),
    "vgg16": Size(15.47, 138.4, 39),
    "vgg16_bn": Size(15.47, 138.4, 52),
    "vgg19": Size(19.63, 143.7, 45),
    "vgg19_bn": Size(19.63, 143.7, 61),
    "vit_b_16": Size(17.56, 86.6, 75),
    "vit_b_32": Size(4.41, 88.2, 75),
    "vit_h_14": Size(190.12, 633.5, 200),
    "vit_l_16": Size(61.55, 304.3, 147),
    "vit_l_32": Size(15.38, 306.5, 147),
    "wide_resnet101_2": Size(22.75, 126.9, 245),
    "wide_resnet50_2": Size(11.4, 68.9, 126),
}


def size_of(model: str) -> Size:
    """By the spec's name of a model; one that is not in the table counts as of middle size."""
    kind, _, name = model.partition(":")
    if kind == "timm":  # many of its names are torchvision's, some followed by .WEIGHTS
        name = name.split(".")[0]
    return SIZES.get(name if kind in ("torchvision", "timm") else model, UNKNOWN)
