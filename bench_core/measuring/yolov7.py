"""YOLOv7 for timing and parity: the network of arXiv 2207.02696, written anew from its description.

It starts from random weights and finds nothing. The two forms are the paper's: in training the
last 3x3 convolutions are sums of a 3x3 and a 1x1, each with batch norm; for deployment each sum is
one 3x3 with a bias that computes the same. The loss is a plain one, not the paper's with its
assignment of boxes to anchors: it is there to be timed, and says nothing of how boxes are found.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 80
BOXES_A_CELL = 3
BOXES_AN_IMAGE = 8
NOISE = (1, 3, 256, 256)  # images, colours, height, width


def yolov7(deploy: bool) -> nn.Module:
    """The model in eval mode: images (batch, 3, height, width) to three maps of 255 channels.

    Height and width are multiples of 32; the maps have strides 8, 16 and 32. The channels are
    3 boxes of centre x, y, width, height, objectness and 80 classes, all before the sigmoid.
    """
    model = YOLOv7()
    _settle_batch_norm(model)
    return deployed(model) if deploy else model


def deployed(model: nn.Module) -> nn.Module:
    """A copy in eval mode whose RepConvs are one convolution each: the same function."""
    model = copy.deepcopy(model).eval()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, RepConv):
                setattr(parent, name, nn.Sequential(child.as_one_convolution(), nn.SiLU()))
    return model


def _settle_batch_norm(model: nn.Module) -> None:
    """Running statistics of one pass over noise, as a trained model has fitting ones.

    With the initial ones (mean 0, variance 1) every layer in eval mode shrinks its input, to 1e-13
    at the last: the outputs would be those of any other image, and parity would compare nothing.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # keep nothing of the initial ones
    with torch.no_grad():
        model.train()(torch.rand(NOISE))
    model.eval()
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum


# The network; numbers are channels


class YOLOv7(nn.Module):
    """In training form. 3, 4 and 5 are the levels of strides 8, 16 and 32, as in the paper."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone_3 = nn.Sequential(
            conv(3, 32, 3),
            conv(32, 64, 3, stride=2),
            conv(64, 64, 3),
            conv(64, 128, 3, stride=2),
            backbone_elan(128, 64, 256),
            Halve(256, 128),
            backbone_elan(256, 128, 512),
        )
        self.backbone_4 = nn.Sequential(Halve(512, 256), backbone_elan(512, 256, 1024))
        self.backbone_5 = nn.Sequential(
            Halve(1024, 512), backbone_elan(1024, 256, 1024), SpatialPyramid(1024, 512)
        )
        self.across_4, self.across_3 = conv(1024, 256), conv(512, 128)
        self.up_from_5, self.up_from_4 = double(512, 256), double(256, 128)
        self.mix_4, self.mix_3 = neck_elan(512, 256, 256), neck_elan(256, 128, 128)
        self.down_from_3, self.down_from_4 = Halve(128, 128), Halve(256, 256)
        self.remix_4, self.remix_5 = neck_elan(512, 256, 256), neck_elan(1024, 512, 512)
        self.head_3, self.head_4, self.head_5 = head(128), head(256), head(512)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        backbone_3 = self.backbone_3(images)
        backbone_4 = self.backbone_4(backbone_3)
        top = self.backbone_5(backbone_4)
        mixed_4 = self.mix_4(torch.cat((self.across_4(backbone_4), self.up_from_5(top)), 1))
        out_3 = self.mix_3(torch.cat((self.across_3(backbone_3), self.up_from_4(mixed_4)), 1))
        out_4 = self.remix_4(torch.cat((self.down_from_3(out_3), mixed_4), 1))
        out_5 = self.remix_5(torch.cat((self.down_from_4(out_4), top), 1))
        return self.head_3(out_3), self.head_4(out_4), self.head_5(out_5)


def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(bare_conv(inputs, outputs, kernel, stride), nn.SiLU())


def bare_conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Elan(nn.Module):
    """Two 1x1 branches, on the second a row of four 3x3; those `joined` of all six, then 1x1."""

    def __init__(
        self, inputs: int, hidden: int, row: int, outputs: int, joined: Sequence[int]
    ) -> None:
        super().__init__()
        self.beside, self.first = conv(inputs, hidden), conv(inputs, hidden)
        self.row = nn.ModuleList(conv(hidden if place == 0 else row, row, 3) for place in range(4))
        self.joined = joined
        widths = (hidden, hidden, row, row, row, row)
        self.last = conv(sum(widths[index] for index in joined), outputs)

    def forward(self, signal: Tensor) -> Tensor:
        made = [self.beside(signal), self.first(signal)]
        for layer in self.row:
            made.append(layer(made[-1]))
        return self.last(torch.cat([made[index] for index in self.joined], 1))


def backbone_elan(inputs: int, hidden: int, outputs: int) -> Elan:
    return Elan(inputs, hidden, hidden, outputs, joined=(0, 1, 3, 5))


def neck_elan(inputs: int, hidden: int, outputs: int) -> Elan:
    return Elan(inputs, hidden, hidden // 2, outputs, joined=range(6))


class Halve(nn.Module):
    """Half the height and width by pooling and, beside it, by a strided convolution."""

    def __init__(self, inputs: int, each: int) -> None:
        super().__init__()
        self.pooled = nn.Sequential(nn.MaxPool2d(2), conv(inputs, each))
        self.strided = nn.Sequential(conv(inputs, each), conv(each, each, 3, stride=2))

    def forward(self, signal: Tensor) -> Tensor:
        return torch.cat((self.pooled(signal), self.strided(signal)), 1)


def double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv(inputs, outputs), nn.Upsample(scale_factor=2))


class SpatialPyramid(nn.Module):
    """Pools of 5, 9 and 13 pixels beside the signal, and a 1x1 past all of it (SPPCSPC)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.before = nn.Sequential(
            conv(inputs, hidden), conv(hidden, hidden, 3), conv(hidden, hidden)
        )
        self.pools = nn.ModuleList(
            nn.MaxPool2d(size, stride=1, padding=size // 2) for size in (5, 9, 13)
        )
        self.after = nn.Sequential(conv(4 * hidden, hidden), conv(hidden, hidden, 3))
        self.past = conv(inputs, hidden)
        self.last = conv(2 * hidden, hidden)

    def forward(self, signal: Tensor) -> Tensor:
        before = self.before(signal)
        after = self.after(torch.cat([before, *(pool(before) for pool in self.pools)], 1))
        return self.last(torch.cat((after, self.past(signal)), 1))


class RepConv(nn.Module):
    """A 3x3 and a 1x1 convolution, each with batch norm, summed before the activation."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.large, self.small = bare_conv(inputs, outputs, 3), bare_conv(inputs, outputs, 1)
        self.activation = nn.SiLU()

    def forward(self, signal: Tensor) -> Tensor:
        return self.activation(self.large(signal) + self.small(signal))

    def as_one_convolution(self) -> nn.Conv2d:
        """The sum with its running statistics; a 1x1 kernel is the centre of a 3x3."""
        (large, large_bias), (small, small_bias) = map(_folded, (self.large, self.small))
        one = nn.Conv2d(large.shape[1], large.shape[0], 3, padding=1)
        with torch.no_grad():
            one.weight.copy_(large + functional.pad(small, (1, 1, 1, 1)))
            one.bias.copy_(large_bias + small_bias)
        return one


def _folded(pair: nn.Sequential) -> tuple[Tensor, Tensor]:
    """Kernel and bias of a convolution with the batch norm behind it."""
    convolution, norm = pair
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    kernel = convolution.weight * scale[:, None, None, None]
    return kernel, norm.bias - norm.running_mean * scale


def head(channels: int) -> nn.Sequential:
    predicted = BOXES_A_CELL * (5 + CLASSES)
    return nn.Sequential(RepConv(channels, 2 * channels), nn.Conv2d(2 * channels, predicted, 1))


# Training it


cross_entropy = functional.binary_cross_entropy_with_logits


def detection_loss(outputs: Sequence[Tensor], targets: Tensor) -> Tensor:
    """Box, objectness and class, each a mean, summed over the three maps.

    `targets` (batch, boxes, 5): class, then centre x, y, width and height in parts of the image.
    On every map the three boxes of the cell that holds a target's centre shall be that target,
    and all others nothing.
    """
    kinds = functional.one_hot(targets[..., None, 0].long(), CLASSES).float()
    boxes = targets[..., None, 1:]
    image = torch.arange(len(targets), device=targets.device)[:, None]
    total = torch.zeros((), device=targets.device)
    for output in outputs:
        # (batch, height, width, BOXES_A_CELL, 5 + CLASSES)
        predicted = output.float().unflatten(1, (BOXES_A_CELL, -1)).permute(0, 3, 4, 1, 2)
        height, width = predicted.shape[1:3]
        column, row = (targets[..., 1] * width).long(), (targets[..., 2] * height).long()
        found = predicted[image, row, column]  # (batch, boxes, BOXES_A_CELL, 5 + CLASSES)
        x, y, across, down = found[..., :4].sigmoid().unbind(-1)
        box = torch.stack(
            ((column[..., None] + x) / width, (row[..., None] + y) / height, across, down), -1
        )
        present = torch.zeros_like(predicted[..., 4])
        present[image, row, column] = 1.0
        total = (
            total
            + functional.l1_loss(box, boxes.expand_as(box))
            + cross_entropy(predicted[..., 4], present)
            + cross_entropy(found[..., 5:], kinds.expand_as(found[..., 5:]))
        )
    return total


def batches_of(image_size: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """`make_batch` for images of this size: noise, and boxes anywhere in it.

    They follow from the process's seed alone, not from what was drawn since it was set.
    """
    chance = torch.Generator().manual_seed(torch.initial_seed())

    def make_batch(batch_size: int) -> tuple[Tensor, Tensor]:
        images = torch.rand(batch_size, 3, image_size, image_size, generator=chance)
        places = torch.rand(batch_size, BOXES_AN_IMAGE, 4, generator=chance)
        kinds = torch.randint(CLASSES, (batch_size, BOXES_AN_IMAGE, 1), generator=chance)
        return images, torch.cat((kinds, places), -1)

    return make_batch
