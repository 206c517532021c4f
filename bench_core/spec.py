"""What is measured: workload, variant, measurement, device; and grids of them.

Every field's role is the class that holds it. Fields of `Workload` must agree between two runs
before a ratio is formed; fields of `Variant` are what a comparison varies; fields of `Measurement`
say how long and how often, and never block a comparison. Nothing here imports torch: what torch
would refuse or silently ignore is refused here, before a process starts.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
import shlex
import uuid
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)


class SpecError(ValueError):
    """A spec that cannot be run. The text names the field, its value and the way out."""


def explain(error: ValidationError) -> str:
    """Pydantic's findings as sentences: `batch_size must be at least 1, got 0`."""
    findings = error.errors()
    # A tuple with a bad item is reported as too short besides.
    if any(finding["type"] != "too_short" for finding in findings):
        findings = [finding for finding in findings if finding["type"] != "too_short"]
    return "; ".join(dict.fromkeys(_sentence(finding) for finding in findings))


def _sentence(finding: Any) -> str:
    names = [str(part) for part in finding["loc"] if isinstance(part, str)]
    name = names[-1] if names else "the spec"
    if "options" in names:
        name = "options"
    got = json.dumps(finding["input"], default=str)
    if len(got) > 80:
        got = got[:77] + "..."
    context = finding.get("ctx", {})
    match finding["type"]:
        case "greater_than_equal":
            return f"{name} must be at least {context['ge']}, got {got}"
        case "greater_than":
            return f"{name} must be above {context['gt']}, got {got}"
        case "less_than_equal":
            return f"{name} must be at most {context['le']}, got {got}"
        case "literal_error":
            return f"{name} must be one of {context['expected']}, got {got}"
        case "extra_forbidden":
            return f"{name} is not a field of the spec (value {got}); remove it"
        case "missing":
            return f"{name} is missing; give it a value"
        case "value_error":
            return str(context["error"])
        case _:
            said = finding["msg"]
            return f"{name}: {said[0].lower()}{said[1:]}, got {got}"


class Frozen(BaseModel):
    """A value that checks itself once, when it is made, and cannot change after that."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise SpecError(explain(error)) from None

    def __hash__(self) -> int:
        try:
            return hash(tuple(vars(self).values()))
        except TypeError:  # options is a dict
            return hash(json.dumps(self.model_dump(), sort_keys=True))

    def to_json(self) -> str:
        """One line of JSON, without a line break."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """The inverse of `to_json`. Raises SpecError."""
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            raise SpecError(explain(error)) from None

    def changed(self, **fields: Any) -> Self:
        """A checked copy with other values (`model_copy` does not check)."""
        return type(self)(**{**dict(self), **fields})


Task = Literal["train", "infer"]
GradMode = Literal["no_grad", "inference_mode", "enabled"]
Dataset = Literal["synthetic", "cifar10", "imagefolder"]
Pipeline = Literal["on_the_fly", "cached", "resident"]
Precision = Literal["fp32", "bf16", "fp16"]
Execution = Literal[
    "eager", "compile", "compile_frozen", "export_aot", "jit_trace_frozen", "onednn_graph"
]
Cache = Literal["cold", "warm", "off"]
Protocol = Literal["sequential", "paired"]
Side = Literal["A", "B"]
Mode = Literal["default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"]

NAMED_MODELS = (
    "small_cnn",
    "pointwise_cnn",
    "resnet18",
    "resnet50",
    "resnet101",
    "vgg16",
    "yolov7",
)
NAMED_FUNCTIONS = ("function:sin_cos",)
# One sentence each, for the pages.
EXECUTION_WORDS: dict[Execution, str] = {
    "eager": "PyTorch runs the model's own Python code, one operator after the other",
    "compile": "torch.compile captures graphs in the first call and has a backend compile them",
    "compile_frozen": "torch.compile with the weights frozen into the compiled code as constants",
    "export_aot": "torch.export takes the model as one graph, and AOTInductor makes a library of "
    "it before the first call",
    "jit_trace_frozen": "TorchScript records the path that one batch takes, the weights frozen "
    "into it; deprecated by PyTorch",
    "onednn_graph": "TorchScript, traced and frozen, its operators fused by oneDNN Graph; CPU "
    "only, deprecated by PyTorch",
}
# These take the arguments of torch.compile; the others take none.
COMPILES = ("compile", "compile_frozen")
# These need the weights and the shape of the input to stand still.
INFERENCE_ONLY = ("compile_frozen", "export_aot", "jit_trace_frozen", "onednn_graph")
# Its coarsest map has a cell for so many pixels.
YOLOV7_STRIDE = 32
# Loader pipelines of an inference run begin anew after this many batches.
LOADED_BATCHES = 32
# torch.compile hands `mode` and `options` to Inductor alone; these ignore both with a log line.
BACKENDS_WITHOUT_OPTIONS = ("eager", "aot_eager", "cudagraphs")
DEVICE_NAME = re.compile(r"cpu|mps|cuda:\d+")
MODEL_NAME = re.compile(
    r"torchvision:[A-Za-z0-9_]+|timm:[A-Za-z0-9_.\-]+|file:[^/\\]+\.py|function:[^/\\]+\.py"
)
# Models that were measured by other tools, as their files call them: results of them are imported,
# and nothing here can build them.
FOREIGN_MODEL = re.compile(r"(torchbench|huggingface|other):[^\x00-\x1f\x7f]{1,200}")

# Below so many runs an arm there is no interval whose width could be judged.
FEWEST_UNTIL_SURE = 3

Count = Annotated[int, Field(ge=1)]


def _meant(model: str) -> str:
    """The way out of a name that lacks its kind, or is nearly one of ours."""
    ours = {name.rpartition(":")[2]: name for name in (*NAMED_MODELS, *NAMED_FUNCTIONS)}
    name = model.rpartition(":")[2].lower()
    near = [name] if name in ours else difflib.get_close_matches(name, ours)
    return f"; did you mean {' or '.join(ours[name] for name in near)}?" if near else ""


class Workload(Frozen):
    """What is executed. Both arms of a comparison share every field of it.

    `grad_mode` belongs to inference and is None in training. With `compile_in_grad_mode` the
    model is compiled (traced, exported) inside of it already, with `backward` each iteration
    computes gradients too. For a function `batch_size` is the size n of its input.
    """

    task: Task = "train"
    model: str
    dataset: Dataset = "synthetic"
    dataset_path: str | None = None
    pipeline: Pipeline = "on_the_fly"
    loader_workers: int = Field(default=0, ge=0, le=256)
    samples: int = Field(default=1024, ge=1)
    drop_last: bool = True
    image_size: int = Field(default=224, ge=8, le=4096)
    batch_size: int = Field(default=16, ge=1, le=10**9)
    precision: Precision = "fp32"
    tf32: Literal["default", "off", "on"] = "default"
    memory_layout: Literal["contiguous", "channels_last"] = "contiguous"
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = Field(default=1e-3, gt=0)
    evaluate: Literal["none", "variant"] = "none"
    threads: int | None = Field(default=None, ge=1, le=4096)
    grad_mode: GradMode | None = None
    compile_in_grad_mode: bool = False
    backward: bool = False

    @model_validator(mode="before")
    @classmethod
    def defaults_of_inference(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or fields.get("task") != "infer":
            return fields
        filled = {"pipeline": "resident", **fields}
        batch = filled.get("batch_size", 16)
        if "samples" not in filled and isinstance(batch, int):
            filled["samples"] = batch * (1 if filled["pipeline"] == "resident" else LOADED_BATCHES)
        if filled.get("grad_mode") is None:
            filled["grad_mode"] = "enabled" if filled.get("backward") else "no_grad"
        return filled

    @field_validator("model")
    @classmethod
    def known_kind_of_model(cls, model: str) -> str:
        # One name a model: torchvision:resnet18 and resnet18 must be comparable.
        short = model.removeprefix("torchvision:")
        if short in NAMED_MODELS or short in NAMED_FUNCTIONS:
            return short
        if not MODEL_NAME.fullmatch(model) and not FOREIGN_MODEL.fullmatch(model):
            known = ", ".join((*NAMED_MODELS, *NAMED_FUNCTIONS))
            raise ValueError(
                f"model must be one of {known}, torchvision:NAME, timm:NAME, file:NAME.py or "
                f"function:NAME.py, got {model!r}{_meant(model)}"
            )
        return model

    @model_validator(mode="after")
    def can_run(self) -> Self:
        if self.drop_last and self.samples < self.batch_size:
            raise ValueError(
                f"samples must be at least batch_size with drop_last, got {self.samples} samples "
                f"for batch_size {self.batch_size}: no step would be left; take more samples"
                + (" or a smaller batch", ", a smaller batch, or drop_last=False")[
                    self.task == "train"
                ]
            )
        if self.dataset == "imagefolder" and not self.dataset_path:
            raise ValueError("dataset imagefolder needs dataset_path, the folder of class folders")
        if self.dataset != "imagefolder" and self.dataset_path:
            raise ValueError(
                f"dataset_path is only read by imagefolder, got dataset {self.dataset!r} "
                f"with dataset_path {self.dataset_path!r}; remove it"
            )
        if self.pipeline == "resident" and self.loader_workers:
            raise ValueError(
                "pipeline resident has no loader, so loader_workers must be 0, "
                f"got {self.loader_workers}; choose pipeline on_the_fly or cached"
            )
        return self

    @model_validator(mode="after")
    def fits_its_task(self) -> Self:
        if self.task == "train":
            unread = {
                "grad_mode": self.grad_mode,
                "compile_in_grad_mode": self.compile_in_grad_mode,
                "backward": self.backward,
            }
            for name, value in unread.items():
                if value:
                    raise ValueError(f"{name} is only read by task infer, got {value!r}; remove it")
        else:
            for name in ("optimizer", "learning_rate", "evaluate", "drop_last"):
                value, default = getattr(self, name), type(self).model_fields[name].default
                if value != default:
                    raise ValueError(f"{name} is only read by task train, got {value!r}; remove it")
        if self.backward != (self.grad_mode == "enabled"):
            raise ValueError(
                "backward needs grad_mode enabled, and without backward it is no_grad or "
                f"inference_mode, got backward {self.backward} with grad_mode {self.grad_mode!r}; "
                "leave grad_mode out"
            )
        if self.is_function:
            if self.task == "train":
                raise ValueError(
                    f"{self.model} has no parameters to train; choose task infer, with backward "
                    "if its gradients are wanted"
                )
            for name, only in (("precision", "fp32"), ("pipeline", "resident")):
                if getattr(self, name) != only:
                    raise ValueError(
                        f"a function is measured with {name} {only}, got "
                        f"{getattr(self, name)!r}; its inputs come from make_inputs(n)"
                    )
        return self

    @model_validator(mode="after")
    def fits_its_model(self) -> Self:
        if self.model != "yolov7":
            return self
        size = self.image_size
        if size % YOLOV7_STRIDE:
            near = max(YOLOV7_STRIDE, size // YOLOV7_STRIDE * YOLOV7_STRIDE)
            raise ValueError(
                "yolov7 halves the image five times, so image_size must be a multiple of "
                f"{YOLOV7_STRIDE}, got {size}; take {near} or {near + YOLOV7_STRIDE}"
            )
        if self.dataset != "synthetic":
            raise ValueError(
                f"yolov7 is measured on synthetic images and boxes, got dataset {self.dataset}; "
                "choose dataset synthetic"
            )
        if self.evaluate != "none":
            raise ValueError(
                f"yolov7 finds boxes, and evaluate {self.evaluate} counts right classes; "
                "choose evaluate none"
            )
        return self

    @property
    def unit(self) -> Literal["epoch", "iteration"]:
        """What is timed and compared."""
        return "epoch" if self.task == "train" else "iteration"

    @property
    def is_function(self) -> bool:
        return self.model.startswith("function:")

    @property
    def is_foreign(self) -> bool:
        """Whether only a results file knows this model, so that it cannot be measured here."""
        return FOREIGN_MODEL.fullmatch(self.model) is not None

    @property
    def model_name(self) -> str:
        """The model as a person calls it: without `function:` and `other:`."""
        return self.model.removeprefix("function:").removeprefix("other:")

    @property
    def size_text(self) -> str:
        """`batch 16`; of a function, whose input has that size, `n = 10 000`."""
        if self.is_function:
            return f"n\u00a0=\u00a0{self.batch_size:,}".replace(",", "\u202f")
        return f"batch {self.batch_size}"

    @property
    def unusual(self) -> dict[str, str]:
        """What a name must not leave unsaid, by field: `bf16`, `channels_last`, `tf32 on`."""
        words = {
            "precision": self.precision,
            "memory_layout": self.memory_layout,
            "tf32": f"tf32 {self.tf32}",
        }
        usual = ("fp32", "contiguous", "tf32 default")
        return {name: word for name, word in words.items() if word not in usual}

    @property
    def words(self) -> list[str]:
        """`batch 16`; `batch 16`, `bf16`, `channels_last`; in inference `batch 1`, `fp32`."""
        words = [self.size_text, *self.unusual.values()]
        if self.task == "infer" and not self.is_function and "precision" not in self.unusual:
            words.insert(1, self.precision)
        return words

    @property
    def thing(self) -> Literal["image", "element", "sample"]:
        """What a second has many of. A model from a file may be fed anything."""
        if self.is_function:
            return "element"
        return "sample" if self.model.startswith("file:") else "image"

    @property
    def remainder(self) -> int:
        """Samples in the ragged last batch; 0 when there is none."""
        return 0 if self.drop_last else self.samples % self.batch_size

    @property
    def samples_done(self) -> int:
        """Samples that one epoch or one call handles: those of dropped batches are none of them."""
        if self.unit == "iteration":
            return self.batch_size
        return self.steps_per_epoch * self.batch_size if self.drop_last else self.samples

    @property
    def steps_per_epoch(self) -> int:
        if self.drop_last:
            return self.samples // self.batch_size
        return math.ceil(self.samples / self.batch_size)


class Variant(Frozen):
    """How it is executed: eager, or the arguments of `torch.compile` under PyTorch's own names.

    `cache` is the state of the compile caches when the run starts: `cold` (own empty folders),
    `warm` (filled before by the same compile) or `off` (no cache used at all). `compile_frozen` is
    torch.compile with the weights frozen into the code, `export_aot` torch.export and AOTInductor;
    `jit_trace_frozen` and `onednn_graph` are TorchScript, which PyTorch has deprecated.
    """

    execution: Execution = "eager"
    backend: str | None = None
    mode: Mode | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    options: dict[str, JsonValue] | None = None
    disable: bool = False
    cache: Cache | None = None

    @model_validator(mode="before")
    @classmethod
    def defaults_of_compile(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        filled = dict(fields)
        if filled.get("execution") in COMPILES:
            filled["backend"] = filled.get("backend") or "inductor"
        if filled.get("execution") in (*COMPILES, "export_aot"):
            filled["cache"] = filled.get("cache") or "cold"
        return filled

    @model_validator(mode="after")
    def torch_would_take_it(self) -> Self:
        if self.execution not in COMPILES:
            own = {"execution", "cache"} if self.execution == "export_aot" else {"execution"}
            given = sorted(self.model_fields_set - own - set(self._unset()))
            if given:
                raise ValueError(
                    f"execution {self.execution} takes no arguments of torch.compile, got "
                    f"{', '.join(given)}; remove them or choose execution compile"
                )
            if self.cache in ("warm", "off"):
                raise ValueError(
                    f"execution export_aot compiles anew every time, so cache must be cold, got "
                    f"{self.cache!r}"
                )
            return self
        if self.execution == "compile_frozen" and self.backend != "inductor":
            raise ValueError(
                f"only backend inductor freezes, got backend {self.backend!r}; leave it out or "
                "choose execution compile"
            )
        if self.mode is not None and self.options is not None:
            raise ValueError(
                f"torch.compile takes mode or options, not both, got mode {self.mode!r} and "
                f"options {json.dumps(self.options)}; leave one of them out"
            )
        if self.backend in BACKENDS_WITHOUT_OPTIONS and (self.mode or self.options):
            named = "mode" if self.mode else "options"
            raise ValueError(
                f"backend {self.backend!r} ignores {named} without a word; leave {named} out or "
                "choose backend 'inductor'"
            )
        if self.options and "freezing" in self.options:
            raise ValueError(
                "options {'freezing': ...} does nothing: Inductor reads freezing when it is "
                "imported; choose execution compile_frozen"
            )
        return self

    def _unset(self) -> list[str]:
        """Fields that hold what they hold when nobody names them."""
        return [
            name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) == field.default
        ]

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments for `torch.compile`, without those left at PyTorch's default."""
        unset = self._unset()
        changed = {
            name: getattr(self, name)
            for name in ("backend", "mode", "fullgraph", "dynamic", "options", "disable")
            if name not in unset
        }
        return {name: value for name, value in changed.items() if value != "inductor"}

    @property
    def arm(self) -> Variant:
        """The variant apart from the state of its cache: what a steady state belongs to."""
        return self if self.cache in (None, "cold") else self.changed(cache="cold")

    @property
    def name(self) -> str:
        """The arm as a person reads it: `eager`, `compile`, `compile dynamic=False`."""
        words = [
            str(value) if name in ("mode", "backend") else f"{name}={_plain(value)}"
            for name, value in self.arguments.items()
        ]
        return " ".join([self.execution, *words])

    @property
    def name_with_cache(self) -> str:
        return f"{self.name}, {self.cache} cache" if self.cache else self.name


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else str(value)


class Measurement(Frozen):
    """How long and how often. Two runs that differ only here may be compared.

    Training is measured by `epochs`, inference by `iterations`. `protocol`: `sequential` measures
    one run after the other, in the order A B B A; `paired` keeps the arms of a repeat alive side by
    side and lets them take turns, one epoch (block) each. With `until_sure` repeats end as soon as
    the speedup's 95 % interval is no wider than plus or minus so many per cent; the experiment's
    `repeats` are the most there can be. `side` tells the equal arms of an A/A experiment apart.
    """

    epochs: int = Field(default=10, ge=1, le=100_000)
    iterations: int = Field(default=200, ge=1, le=1_000_000)
    repeat: int = Field(default=1, ge=1, le=1000)
    seed: int = Field(default=0, ge=0, lt=2**32)
    weights: Literal["random", "pretrained"] = "random"
    max_seconds: float | None = Field(default=None, gt=0)
    timeout_seconds: float = Field(default=6 * 3600, gt=0, le=30 * 86400)
    label: str = Field(default="", max_length=200)
    protocol: Protocol = "sequential"
    until_sure: float | None = Field(default=None, ge=0.1, le=50)
    side: Side | None = None


class RunSpec(Frozen):
    """One workload, one variant, one device, to be measured in one fresh process."""

    workload: Workload
    variant: Variant = Variant()
    measurement: Measurement = Measurement()
    device: str = "cpu"

    @model_validator(mode="after")
    def device_can_do_it(self) -> Self:
        if not DEVICE_NAME.fullmatch(self.device):
            raise ValueError(f"device must be cpu, mps or cuda:N, got {self.device!r}")
        if self.workload.tf32 == "on" and not self.device.startswith("cuda"):
            raise ValueError(
                f"tf32 on needs a CUDA device, got device {self.device!r}; choose tf32 default"
            )
        if self.variant.backend == "cudagraphs" and not self.device.startswith("cuda"):
            raise ValueError(
                f"backend cudagraphs needs a CUDA device, got device {self.device!r}; "
                "choose backend inductor"
            )
        return self

    @model_validator(mode="after")
    def execution_can_do_it(self) -> Self:
        work, execution = self.workload, self.variant.execution
        if execution in INFERENCE_ONLY and work.task == "train":
            raise ValueError(
                f"execution {execution} is for inference, got task 'train'; choose task infer, or "
                "execution compile"
            )
        if execution == "onednn_graph" and work.precision == "fp16":
            raise ValueError(
                "execution onednn_graph fuses in fp32 and bf16, got precision 'fp16'; choose one "
                "of them, or execution jit_trace_frozen"
            )
        if execution == "onednn_graph" and self.device != "cpu":
            raise ValueError(
                f"execution onednn_graph runs on the CPU only, got device {self.device!r}; choose "
                "device cpu or execution compile"
            )
        if execution in INFERENCE_ONLY and (work.is_function or work.backward):
            what = f"the function {work.model}" if work.is_function else "backward"
            raise ValueError(
                f"{what} runs with execution eager or compile, got {execution!r}: the others are "
                "made for models without gradients"
            )
        return self

    @property
    def is_done_after(self) -> int:
        """Epochs, or in inference iterations, that make the run whole."""
        wanted = self.measurement
        return wanted.epochs if self.workload.task == "train" else wanted.iterations

    @property
    def cache_key(self) -> str:
        """Names the folder of this compile's warm caches: same key, same compiled code."""
        compiled = (self.workload, self.variant.arm, self.device)
        text = "".join(part if isinstance(part, str) else part.to_json() for part in compiled)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def command(self) -> str:
        """The copy-paste line that measures the same again, defaults left out."""
        return " ".join(["python -m bench_core run", *_options_of(self)])


def new_id() -> str:
    return uuid.uuid4().hex[:12]


class Rung(Frozen):
    """One arm that differs from the others in more than its variant, or in nothing at all (A/A).

    `workload` holds the fields that this arm changes, by name.
    """

    workload: dict[str, JsonValue] = Field(default_factory=dict)
    variant: Variant = Variant()
    side: Side | None = None

    @property
    def argument(self) -> str:
        """As the command line takes it: JSON with what is not at its default."""
        return self.model_dump_json(exclude_defaults=True)


class Experiment(Frozen):
    """The runs queued together by one launch.

    A grid: models x batch sizes x precisions x variants x repeats. `workload` is the template:
    its model, batch size and precision are replaced by the grid's. `rungs`, where given, stand in
    the place of precisions x variants: the arms of a fairness ladder, of a remedy, of an A/A.
    """

    id: str = Field(default_factory=new_id, pattern=r"^[0-9a-f]{12}$")
    preset: str = "custom"
    models: tuple[str, ...] = Field(min_length=1)
    batch_sizes: tuple[Count, ...] = Field(min_length=1)
    precisions: tuple[Precision, ...] = ("fp32",)
    variants: tuple[Variant, ...] = Field(min_length=1)
    rungs: tuple[Rung, ...] = ()
    repeats: int = Field(default=3, ge=1, le=100)
    device: str = "cpu"
    workload: dict[str, Any] = Field(default_factory=dict)
    measurement: Measurement = Measurement()

    @model_validator(mode="before")
    @classmethod
    def variants_of_rungs(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or not fields.get("rungs"):
            return fields
        rungs = [
            rung if isinstance(rung, Rung) else Rung.model_validate(rung)
            for rung in fields["rungs"]
        ]
        variants = tuple(dict.fromkeys(rung.variant for rung in rungs))
        return {**fields, "rungs": tuple(rungs), "variants": variants}

    @model_validator(mode="after")
    def every_run_is_valid(self) -> Self:
        for name in ("models", "batch_sizes", "precisions", "variants", "rungs"):
            values = getattr(self, name)
            if len(values) != len({str(value) for value in values}):
                told = ", ".join(map(_told, values))
                raise ValueError(f"{name} names one thing twice: {told}; name each once")
        if len({rung.workload.get("task", self.workload.get("task")) for rung in self.rungs}) > 1:
            raise ValueError(
                "rungs must be of one task: seconds of an epoch and of a call have no ratio; "
                "take task out of the rungs"
            )
        arms = len(self.rungs or self.variants)
        for name in ("until_sure", "protocol"):
            value = getattr(self.measurement, name)
            if arms < 2 and value not in (None, "sequential"):
                raise ValueError(
                    f"{name} {value} needs two arms to compare, got {arms}; add a variant or leave "
                    f"{name} out"
                )
        if self.measurement.until_sure and self.repeats < FEWEST_UNTIL_SURE:
            raise ValueError(
                f"until_sure needs repeats of at least {FEWEST_UNTIL_SURE}, the most runs of an "
                f"arm there may be, got {self.repeats}; allow more repeats"
            )
        for run in self.runs():
            if run.workload.is_foreign:
                raise ValueError(
                    f"model {run.workload.model!r} is known from imported results only and cannot "
                    "be measured here; choose a model of torchvision, timm or a file"
                )
        if any(rung.side for rung in self.rungs) and self.axis != ("side",):
            raise ValueError(
                "side tells equal arms apart, A and B, but these rungs differ in "
                f"{', '.join(self.axis)}; leave side out of them, or make them equal"
            )
        return self

    def refuse_unlike_rungs(self) -> None:
        """Before it is queued; what is stored is read as it is, and no ratio is formed of it.

        Raises SpecError where rungs differ in how many samples an epoch or a call handles.
        """
        runs = self.runs() if self.rungs else []
        for at in range(0, len(runs), len(self.rungs) or 1):
            works = [run.workload for run in runs[at : at + len(self.rungs)]]
            done = list(dict.fromkeys(work.samples_done for work in works))
            if len(done) > 1:
                of, way_out = (
                    ("an epoch", "take samples that every batch_size divides, or one drop_last")
                    if works[0].unit == "epoch"
                    else ("a call", "give the sizes by --batch-size and compare variants at each")
                )
                raise SpecError(
                    f"rungs must handle as many samples in {of}, got "
                    f"{' and '.join(map(str, done))}: their seconds are of unlike work; {way_out}"
                )

    def runs(self) -> list[RunSpec]:
        """The runs in the order they are measured: repeats inside a cell go A B B A A B ...

        A repeat after the first starts from a warm cache, since only its steady state is wanted.
        """
        runs = []
        for model in self.models:
            for batch_size in self.batch_sizes:
                for arms in self._arms():
                    for repeat in range(1, self.repeats + 1):
                        for arm in arms if repeat % 2 else arms[::-1]:
                            runs.append(self._run(model, batch_size, arm, repeat))
        return runs

    def _arms(self) -> list[tuple[Rung, ...]]:
        """The arms that are held against each other, for each precision unless they name it."""
        if self.rungs:
            return [self.rungs]
        return [
            tuple(
                Rung(workload={"precision": precision}, variant=variant)
                for variant in self.variants
            )
            for precision in self.precisions
        ]

    def _run(self, model: str, batch_size: int, arm: Rung, repeat: int) -> RunSpec:
        variant = arm.variant
        if repeat > 1 and variant.cache == "cold" and variant.backend:
            variant = variant.changed(cache="warm")
        grid = {"model": model, "batch_size": batch_size}
        return RunSpec(
            workload=Workload(**{**self.workload, **grid, **arm.workload}),
            variant=variant,
            measurement=self.measurement.changed(repeat=repeat, side=arm.side),
            device=self.device,
        )

    @property
    def axis(self) -> tuple[str, ...]:
        """What its arms differ in: `variant`, `side` or fields of the workload."""
        if not self.rungs:
            return ("variant",)
        first = self.runs()[: len(self.rungs)]
        facts = [
            {**dict(run.workload), "variant": run.variant.arm, "side": run.measurement.side}
            for run in first
        ]
        return tuple(
            name for name in facts[0] if any(of[name] != facts[0][name] for of in facts[1:])
        )

    @property
    def command(self) -> str:
        """The copy-paste line that queues the same experiment again."""
        words = ["python -m bench_core run"]
        words += [f"--model {shlex.quote(model)}" for model in self.models]
        words += [f"--batch-size {batch_size}" for batch_size in self.batch_sizes]
        if self.rungs:
            words += [f"--rung {shlex.quote(rung.argument)}" for rung in self.rungs]
        else:
            words += [f"--precision {precision}" for precision in self.precisions]
            words += [
                f"--variant {shlex.quote(variant_argument(variant))}" for variant in self.variants
            ]
        words += _flags(self.workload, Workload, skip=("model", "batch_size", "precision"))
        words += _flags(dict(self.measurement), Measurement, skip=("repeat", "side"))
        words += [f"--repeats {self.repeats}", f"--device {self.device}"]
        return " ".join(words)


def variant_argument(variant: Variant) -> str:
    """The variant as the command line takes it: `eager`, `compile:{"mode":"max-autotune"}`."""
    given = dict(variant.arguments)
    if variant.cache not in (None, "cold"):
        given["cache"] = variant.cache
    return f"{variant.execution}:{json.dumps(given)}" if given else variant.execution


def parse_variant(text: str) -> Variant:
    """The inverse of `variant_argument`. Raises SpecError."""
    execution, colon, arguments = text.partition(":")
    given: Any = {}
    if colon:
        try:
            given = json.loads(arguments)
        except json.JSONDecodeError as error:
            raise SpecError(
                f"variant {text!r}: what follows the colon must be a JSON object such as "
                f'compile:{{"mode":"max-autotune"}} ({error})'
            ) from None
        if not isinstance(given, dict):
            raise SpecError(f"variant {text!r}: what follows the colon must be a JSON object")
    return Variant(**{**given, "execution": execution})


def _told(value: object) -> str:
    match value:
        case Variant():
            return variant_argument(value)
        case Rung():
            return value.argument
    return str(value)


# These say how a run stands to the others of its experiment; alone it has none.
OF_SEVERAL_RUNS = ("repeat", "side", "protocol", "until_sure")


def _options_of(run: RunSpec) -> list[str]:
    return [
        f"--model {shlex.quote(run.workload.model)}",
        f"--variant {shlex.quote(variant_argument(run.variant))}",
        f"--batch-size {run.workload.batch_size}",
        f"--precision {run.workload.precision}",
        *_flags(dict(run.workload), Workload, skip=("model", "batch_size", "precision")),
        *_flags(dict(run.measurement), Measurement, skip=OF_SEVERAL_RUNS),
        f"--repeats 1 --device {run.device}",
    ]


def _flags(values: dict[str, Any], kind: type[Frozen], skip: tuple[str, ...]) -> list[str]:
    """Values that differ from their default, as the command line's options."""
    flags = []
    for name, field in kind.model_fields.items():
        value = values.get(name, field.default)
        # Training's default of these is another value than what inference fills in.
        filled_in = name in ("pipeline", "samples") and values.get("task") == "infer"
        if name in skip or (value == field.default and not (filled_in and name in values)):
            continue
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(option if value else option.replace("--", "--no-", 1))
        else:
            flags.append(f"{option} {shlex.quote(str(value))}")
    return flags
