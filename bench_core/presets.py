"""Ready-made experiments, each with the caption that says what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench_core.spec import Execution, Experiment, Measurement, Rung, Variant

EAGER = Variant()
COLD = Variant(execution="compile", cache="cold")
WARM = Variant(execution="compile", cache="warm")
INFER = {"task": "infer"}


@dataclass(frozen=True)
class Preset:
    """`experiment(device)` makes a new one, with an id of its own; a CPU gets fewer samples."""

    key: str
    title: str
    caption: str
    experiment: Callable[[str], Experiment]


def _demo(device: str) -> Experiment:
    return Experiment(
        preset="demo",
        models=("small_cnn", "pointwise_cnn"),  # the second answer is the one to look at
        batch_sizes=(32,),
        variants=(EAGER, COLD, WARM),
        repeats=1,
        device=device,
        workload={"image_size": 32, "samples": 512, "pipeline": "cached"},
        measurement=Measurement(epochs=10),
    )


def _article(device: str) -> Experiment:
    return Experiment(
        preset="article",
        models=("resnet18", "resnet50", "resnet101", "vgg16"),
        batch_sizes=(16,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=_as_published(160 if device == "cpu" else 10_000),
        measurement=Measurement(epochs=10),
    )


def _article_long(device: str) -> Experiment:
    return Experiment(
        preset="article-resnet101-100",
        models=("resnet101",),
        batch_sizes=(16,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=_as_published(80 if device == "cpu" else 10_000),
        measurement=Measurement(epochs=100),
    )


def _as_published(samples: int) -> dict[str, object]:
    return {
        "dataset": "cifar10",
        "pipeline": "on_the_fly",
        "samples": samples,
        "drop_last": False,
        "image_size": 224,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "evaluate": "variant",
    }


def _article_inference(device: str) -> Experiment:
    on_cpu = device == "cpu"
    return Experiment(
        preset="article-inference",
        models=("resnet18", "resnet50", "resnet101", "vgg16"),
        batch_sizes=(1,) if on_cpu else (1, 16),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=INFER,
        measurement=Measurement(iterations=100 if on_cpu else 500),
    )


def _article_inference_mode(device: str) -> Experiment:
    return Experiment(
        preset="article-inference-mode",
        models=("resnet18",),
        batch_sizes=(1,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload={**INFER, "grad_mode": "inference_mode", "compile_in_grad_mode": True},
        measurement=Measurement(iterations=100),
    )


def _article_yolov7(device: str) -> Experiment:
    return Experiment(
        preset="article-yolov7",
        models=("yolov7",),
        batch_sizes=(1,),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload={**INFER, "image_size": 640},
        measurement=Measurement(iterations=50 if device == "cpu" else 500),
    )


def _article_when(device: str) -> Experiment:
    on_cpu = device == "cpu"
    return Experiment(
        preset="article-when",
        models=(
            ("small_cnn", "torchvision:squeezenet1_1", "resnet18", "torchvision:vgg11", "resnet50")
            if on_cpu
            else ("torchvision:mobilenet_v2", "resnet18", "resnet50", "resnet101", "vgg16")
        ),
        batch_sizes=(2, 8, 32) if on_cpu else (8, 32, 128),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload={
            "image_size": 96 if on_cpu else 224,
            "samples": 128 if on_cpu else 2048,
            "pipeline": "resident",
        },
        measurement=Measurement(epochs=6),
    )


def _batch_size_sweep(device: str) -> Experiment:
    on_cpu = device == "cpu"
    return Experiment(
        preset="batch-size-sweep",
        models=("resnet18",) if on_cpu else ("resnet50",),
        batch_sizes=(8, 16, 32) if on_cpu else (8, 16, 32, 64, 128, 256),
        variants=(EAGER, COLD),
        repeats=3,
        device=device,
        workload={
            "image_size": 96 if on_cpu else 224,
            "samples": 128 if on_cpu else 2048,
            "pipeline": "cached",
        },
        measurement=Measurement(epochs=6),
    )


def _noise_floor(device: str) -> Experiment:
    on_gpu = device.startswith("cuda")
    return Experiment(
        preset="noise-floor",
        models=("resnet50",) if on_gpu else ("small_cnn",),
        batch_sizes=(64,) if on_gpu else (32,),
        variants=(EAGER,),
        rungs=(Rung(side="A"), Rung(side="B")),
        repeats=5,
        device=device,
        workload={
            "image_size": 224 if on_gpu else 32,
            # Epochs long enough that the load of other programs can be told.
            "samples": 2048 if on_gpu else 4096,
            "pipeline": "cached",
        },
        measurement=Measurement(epochs=8, protocol="paired"),
    )


def _fairness_ladder(device: str) -> Experiment:
    """Each rung keeps what those below it have."""
    on_gpu = device.startswith("cuda")
    # Not bf16, which a T4 has no units for; every GPU with tensor cores has them for fp16.
    steps: list[dict[str, str]] = [{"tf32": "on"}] if on_gpu else []
    steps += [{"memory_layout": "channels_last"}, {"precision": "fp16" if on_gpu else "bf16"}]
    arms: list[dict[str, str]] = [{"tf32": "off"} if on_gpu else {}]
    for step in steps:
        arms.append({**arms[-1], **step})
    return Experiment(
        preset="fairness-ladder",
        models=("resnet50",) if on_gpu else ("resnet18",),
        batch_sizes=(64,) if on_gpu else (16,),
        variants=(EAGER, COLD),
        rungs=(*(Rung(workload=arm) for arm in arms), Rung(workload=arms[-1], variant=COLD)),
        repeats=3,
        device=device,
        workload={
            "image_size": 224 if on_gpu else 96,
            "samples": 2048 if on_gpu else 128,
            "pipeline": "cached",
        },
        measurement=Measurement(epochs=6),
    )


def _cpu_inference(device: str) -> Experiment:
    words: tuple[Execution, ...] = (
        "eager",
        "compile",
        "compile_frozen",
        "onednn_graph",
        "jit_trace_frozen",
        "export_aot",
    )
    return Experiment(
        preset="cpu-inference",
        models=("resnet18",),
        batch_sizes=(1, 8),
        precisions=("fp32", "bf16"),
        variants=tuple(
            Variant(execution=word) for word in words if device == "cpu" or word != "onednn_graph"
        ),
        repeats=3,
        device=device,
        workload=INFER,
    )


def _function_by_size(device: str) -> Experiment:
    return Experiment(
        preset="function-by-size",
        models=("function:sin_cos",),
        batch_sizes=tuple(10**power for power in range(2, 8)),
        variants=(EAGER, COLD),
        repeats=1,
        device=device,
        workload=INFER,
        measurement=Measurement(iterations=300),
    )


def _custom(device: str) -> Experiment:
    # The spec's own defaults, so that a command line without a preset means the same.
    return Experiment(
        models=("small_cnn",) if device == "cpu" else ("resnet50",),
        batch_sizes=(16,),
        variants=(EAGER, COLD),
        device=device,
    )


PRESETS: dict[str, Preset] = {
    preset.key: preset
    for preset in (
        Preset(
            "demo",
            "Demo",
            "Two small networks, one where compile hardly pays and one where it does, in two "
            "to three minutes on two cores. One run an arm: a first look.",
            _demo,
        ),
        Preset(
            "article",
            "Article",
            "The published protocol: ResNet18, 50, 101 and VGG16 on CIFAR-10 at 224 px, batch 16, "
            "10 epochs, Adam, nothing dropped, testing through the arm's own module, one run an "
            "arm. 10,000 samples an epoch on a GPU; 160 on a CPU, which take some hours.",
            _article,
        ),
        Preset(
            "article-resnet101-100",
            "Article, 100 epochs",
            "The published long run: ResNet101 over 100 epochs. 10,000 samples an epoch on a GPU; "
            "80 on a CPU, which take some hours.",
            _article_long,
        ),
        Preset(
            "article-inference",
            "Article, inference",
            "The same networks at inference, one call after the other. The article saw no gain on "
            "a T4 and a crash on an A100. Batch 1 and 16 on a GPU; 1 on a CPU. A first look.",
            _article_inference,
        ),
        Preset(
            "article-inference-mode",
            "Article, the crash",
            "What crashed on the article's A100: torch.compile called inside of inference_mode "
            "(PyTorch issue 101151, mended in 2023). ResNet18, batch 1: does it run here?",
            _article_inference_mode,
        ),
        Preset(
            "article-yolov7",
            "Article, YOLOv7",
            "YOLOv7 at 640 px, one image a call. The article saw it work, with a small gain. "
            "A first look.",
            _article_yolov7,
        ),
        Preset(
            "article-when",
            "Article, when it pays",
            "The article's conclusion: better with large batches, complex models, a busy GPU and "
            "many epochs. Five models by three batch sizes, one run an arm; Claims tells whether "
            "the speedup grows along. About an hour, on a GPU or at 96 px on two cores.",
            _article_when,
        ),
        Preset(
            "batch-size-sweep",
            "Batch-size sweep",
            "One model over growing batch sizes: where does compile start to pay? ResNet50, 8 to "
            "256, on a GPU; ResNet18 at 96 px, 8 to 32, on a CPU.",
            _batch_size_sweep,
        ),
        Preset(
            "noise-floor",
            "Noise floor",
            "Two equal eager arms, A and B, taking turns in five pairs of processes. How far they "
            "seem to differ is what this machine and device do by themselves: from then on a "
            "smaller difference is grey here. ResNet50 on a GPU, a small network on a CPU.",
            _noise_floor,
        ),
        Preset(
            "fairness-ladder",
            "Fairness ladder",
            "What eager gains by settings that anybody may change comes before what compile "
            "gains: eager in fp32, then TF32 (on a GPU), channels_last and mixed precision, one "
            "on top of the other, at last compile. Mixed precision is fp16 on a GPU, for a T4 has "
            "no fast bf16, and bf16 on a CPU. Three runs a rung.",
            _fairness_ladder,
        ),
        Preset(
            "cpu-inference",
            "CPU inference",
            "Every way to run ResNet18 on a CPU: eager, compile, frozen, oneDNN Graph, TorchScript "
            "and exported, at fp32 and bf16, batch 1 and 8, three runs an arm. On a GPU without "
            "oneDNN Graph.",
            _cpu_inference,
        ),
        Preset(
            "function-by-size",
            "Function by size",
            "sin and cos of 100 to 10 million numbers: from what size on does fusing pay? A first "
            "look at the forward; its gradients are a custom run with backward.",
            _function_by_size,
        ),
        Preset(
            "custom",
            "Custom",
            "Your own choice of models and settings. Three runs an arm: enough for a verdict.",
            _custom,
        ),
    )
}
