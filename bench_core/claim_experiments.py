"""How a claim gets measured: an experiment for this machine, or a command for another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench_core.capabilities import Capabilities
from bench_core.claims import Claim
from bench_core.comparison import COMPILE, EAGER
from bench_core.lacks import lacks_of
from bench_core.presets import PRESETS
from bench_core.spec import Experiment, Measurement, Precision, new_id
from bench_core.stats import RUNS_FOR_A_VERDICT

# What a claim about models in general is measured with: small ones of many kinds.
SEVERAL_MODELS = (
    "torchvision:alexnet",
    "torchvision:squeezenet1_1",
    "resnet18",
    "torchvision:mobilenet_v2",
    "torchvision:mobilenet_v3_small",
    "torchvision:mnasnet0_5",
    "torchvision:shufflenet_v2_x0_5",
    "torchvision:regnet_y_400mf",
    "torchvision:efficientnet_b0",
    "torchvision:convnext_tiny",
    "torchvision:vit_b_32",
    "torchvision:swin_t",
    "torchvision:swin_v2_t",
    "timm:resnet26",
    "timm:resnext50_32x4d",
    "timm:efficientnet_b0",
    "timm:mobilenetv3_large_100",
    "timm:densenet121",
    "timm:convnext_tiny",
    "timm:regnety_008",
    "timm:vit_small_patch16_224",
    "timm:deit_tiny_patch16_224",
    "timm:swin_tiny_patch4_window7_224",
    "timm:mixer_b16_224",
)


def experiment_for(claim: Claim, device: str, models: Sequence[str] = ()) -> Experiment:
    """What measures the claim on that device; `models` are those that may be chosen from."""
    if not claim.preset:
        return _several_models(claim, device, models or SEVERAL_MODELS)
    experiment = PRESETS[claim.preset].experiment(device)
    sweeps = claim.kind.startswith("grows") or claim.kind == "crashed"
    return experiment.changed(
        id=new_id(),
        preset="custom",
        models=tuple(filter(claim.takes_model, experiment.models)),
        batch_sizes=claim.batch_sizes or experiment.batch_sizes,
        precisions=claim.precisions or experiment.precisions,
        variants=(EAGER, claim.variant),
        repeats=experiment.repeats if sweeps else max(RUNS_FOR_A_VERDICT, experiment.repeats),
    )


def _several_models(claim: Claim, device: str, models: Sequence[str]) -> Experiment:
    """Many small models, one run an arm: the interval is over the models."""
    on_cpu = device == "cpu"
    amp: Precision = "bf16"
    precisions: tuple[Precision, ...] = ("fp32",) if "fp32" in claim.precisions else ()
    if set(claim.precisions) - {"fp32"}:
        precisions = (*precisions, amp)
    return Experiment(
        models=tuple(filter(claim.takes_model, models)),
        batch_sizes=(4 if on_cpu else 32,),
        precisions=precisions or ("fp32",),
        variants=(EAGER, COMPILE),
        repeats=1,
        device=device,
        workload={"samples": 16 if on_cpu else 1024, "pipeline": "resident"},
        measurement=Measurement(epochs=5),
    )


@dataclass(frozen=True)
class NextStep:
    """How a claim gets measured: an experiment for this machine, or a sentence and a command."""

    experiment: Experiment | None = None
    sentence: str = ""
    command: str = ""


def next_step(claim: Claim, here: Capabilities | None) -> NextStep:
    """Without `here` nothing is known of this machine, so nothing is offered on it."""
    several = tuple(name for name in SEVERAL_MODELS if claim.takes_model(name))
    if not claim.preset:
        # timm's models only where the claim is about them: torchvision's are always here.
        wants_timm = all(pattern.startswith("timm:") for pattern in claim.models)
        several = tuple(name for name in several if name.startswith("timm:") == wants_timm)
    if claim.kind == "not measured here" or not (claim.preset or several):
        return NextStep(sentence=claim.note)
    elsewhere = "cpu" if claim.devices == ("CPU",) else "cuda:0"
    command = experiment_for(claim, elsewhere, several).command + " --csv results.csv"
    away = NextStep(sentence=f"Measure on {claim.where}", command=command)
    if claim.kind == "desktop against server":
        return replace(away, sentence="Measure on both kinds of GPU")
    if here is None or not claim.takes_isa(here.cpu_isa):
        return away
    fitting = [one.id for one in here.devices if claim.takes_device(one.id, one.name)]
    if not fitting:
        return away
    device = next((one for one in fitting if one != "cpu"), fitting[0])
    experiment = experiment_for(claim, device, several)
    lacks = [lack for run in experiment.runs() for lack in lacks_of(run, here)]
    if lacks:
        return NextStep(sentence=lacks[0])
    return NextStep(experiment)
