"""llama-server's options that this server does not honour, as one table, and what happens to each.

*warn*: accepted and checked; one warning, none when the value is quiet (the default, or what comes to the same).
*refuse*: ignoring it would change results, so the start ends, unless the value is quiet.
*removed*: llama-server itself ends with a pointer to the successor.

To honour an option later, move its line: out of `TABLE`, into a field of `stoker.settings`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from stoker.core.errors import StartError
from stoker.options import readers
from stoker.options.arguments import Given
from stoker.options.domains import Choice, Domain, OnOff, Pair, Parsed, Real, Switch, Text, Whole
from stoker.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    option: Option
    why: str
    """After the colon of the message: the reason and, for a refusal, the nearest alternative."""
    refuses: bool = False
    quiet: tuple[object, ...] = ()
    refused: tuple[object, ...] = ()
    """Values that a row which otherwise warns refuses, with `refusal` for the reason."""
    refusal: str = ""
    removed: bool = False


def _warn(spellings: str, takes: Domain, why: str, *quiet: object, env: str = "") -> Row:
    return Row(option=Option(spellings=tuple(spellings.split()), takes=takes, env=env), why=why, quiet=quiet)


def _refuse(spellings: str, takes: Domain, why: str, *quiet: object, env: str = "") -> Row:
    option = Option(spellings=tuple(spellings.split()), takes=takes, env=env)
    return Row(option=option, why=why, quiet=quiet, refuses=True)


def _partly(row: Row, refusal: str, *refused: object) -> Row:
    return replace(row, refusal=refusal, refused=refused)


def _removed(spellings: str, successor: str, env: str = "") -> Row:
    option = Option(spellings=tuple(spellings.split()), takes=Text(), env=env)
    return Row(option=option, why=f"the argument has been removed. use {successor}", removed=True)


_PACKED = ("q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_KV = Choice(("f32", "f16", "bf16", *_PACKED))

_TEXT = Text()
_FILE = Text("FILE")
_COUNT = Whole(0)
_BIT = Whole(0, 1)
_SWITCH = Switch()
_LAYERS = Whole(-1, names=("auto", "all"))
_PRIORITY = Whole(-1, 3)

_THREADS = "MLX runs its own threads"
_PLACE = "MLX places the work itself"
_LOADING = "MLX reads the weights its own way"
_DTYPE = "the KV cache has the model's own type"
_UNPACKED = "a draft model's KV cache is not packed; give f16"
_CACHE = "not built yet; results are the same without it"
_OTHER_NGRAM = "that kind of n-gram lookup is not built yet"
_NO_EYES = "there is no image or audio input"
_NO_ROUTER = "there is no router"
_NO_UI = "the page at / has no settings"
_LOOKUP_FILE = "lookup caches in files are not built yet; leave it out"
_THINK = "what the prompt shows of earlier thoughts is the template's choice; leave it out"
_STEER = "control vectors are not built; leave it out"
_ROPE = "not built yet; the model's own RoPE settings are used without it"
_SOURCE = "give -hf, or a downloaded file or directory with -m"
_TOOLS = "the server runs no tools; run them in the client"
_RANK = "heads that rank are not built yet, as no model that MLX loads has one; compare --embeddings instead"
_PRESET = "presets are not built; name the model with -hf or -m"
_SIGHT = "image and audio input are not built; leave it out to serve text"
_ROUTER = "the router is not built yet; start one server for each model"


def _ngram_rows() -> Iterable[Row]:
    """The widths of the n-gram kinds that `--spec-type` refuses; harmless alone."""
    for name, default in (("n-min", 48), ("n-max", 64), ("n-match", 24)):
        yield _warn(f"--spec-ngram-mod-{name}", _COUNT, _OTHER_NGRAM, default)
    for kind in ("map-k", "map-k4v"):
        for name, default in (("size-n", 12), ("size-m", 48), ("min-hits", 1)):
            yield _warn(f"--spec-ngram-{kind}-{name}", _COUNT, _OTHER_NGRAM, default)


TABLE: tuple[Row, ...] = (
    # placement
    _warn("-t --threads", Whole(-1), _THREADS, -1, env="LLAMA_ARG_THREADS"),
    _warn("-tb --threads-batch", Whole(-1), _THREADS),
    _warn("-C --cpu-mask", _TEXT, _THREADS, ""),
    _warn("-Cr --cpu-range", _TEXT, _THREADS),
    _warn("--cpu-strict", _BIT, _THREADS, 0),
    _warn("--prio", _PRIORITY, _THREADS, 0),
    _warn("--poll", Whole(0, 100), _THREADS),
    _warn("-Cb --cpu-mask-batch", _TEXT, _THREADS),
    _warn("-Crb --cpu-range-batch", _TEXT, _THREADS),
    _warn("--cpu-strict-batch", _BIT, _THREADS),
    _warn("--prio-batch", _PRIORITY, _THREADS, 0),
    _warn("--poll-batch", Whole(0, 100), _THREADS),
    _warn("-fa --flash-attn", OnOff(), "MLX chooses its attention kernel", "auto", env="LLAMA_ARG_FLASH_ATTN"),
    _warn("--perf", Pair(("--no-perf",)), "there are no such timers", False, env="LLAMA_ARG_PERF"),
    _warn("-kvo --kv-offload", Pair(("-nkvo", "--no-kv-offload")), _PLACE, True, env="LLAMA_ARG_KV_OFFLOAD"),
    _warn("--repack", Pair(("-nr", "--no-repack")), _LOADING, True, env="LLAMA_ARG_REPACK"),
    _warn("--no-host", _SWITCH, _PLACE, env="LLAMA_ARG_NO_HOST"),
    _warn("-dt --defrag-thold", Real(), "slots do not fragment", env="LLAMA_ARG_DEFRAG_THOLD"),
    _refuse("--rpc", _TEXT, "weights stay on this machine; leave it out", env="LLAMA_ARG_RPC"),
    _warn("--mlock", _SWITCH, _LOADING, env="LLAMA_ARG_MLOCK"),
    _warn("--mmap", Pair(("--no-mmap",)), _LOADING, True, env="LLAMA_ARG_MMAP"),
    _warn("-dio --direct-io", Pair(("-ndio", "--no-direct-io")), _LOADING, False, env="LLAMA_ARG_DIO"),
    _warn(
        "-lm --load-mode",
        Choice(("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")),
        _LOADING,
        "auto",
        env="LLAMA_ARG_LOAD_MODE",
    ),
    _warn("--numa", Choice(("distribute", "isolate", "numactl")), _PLACE, env="LLAMA_ARG_NUMA"),
    _partly(
        _warn("-dev --device", _TEXT, _PLACE, env="LLAMA_ARG_DEVICE"), "MLX always has a device; leave it out", "none"
    ),
    _warn("-ot --override-tensor", _TEXT, _PLACE, env="LLAMA_ARG_OVERRIDE_TENSOR"),
    _warn("-cmoe --cpu-moe", _SWITCH, _PLACE, env="LLAMA_ARG_CPU_MOE"),
    _warn("-ncmoe --n-cpu-moe", _COUNT, _PLACE, env="LLAMA_ARG_N_CPU_MOE"),
    _warn("-ngl --gpu-layers --n-gpu-layers", _LAYERS, _PLACE, "auto", env="LLAMA_ARG_N_GPU_LAYERS"),
    _warn("-sm --split-mode", Choice(("none", "layer", "row", "tensor")), _PLACE, env="LLAMA_ARG_SPLIT_MODE"),
    _warn("-ts --tensor-split", _TEXT, _PLACE, env="LLAMA_ARG_TENSOR_SPLIT"),
    _warn("-mg --main-gpu", _COUNT, _PLACE, 0, env="LLAMA_ARG_MAIN_GPU"),
    _warn("-fit --fit", OnOff(auto=False), _PLACE, env="LLAMA_ARG_FIT"),
    _warn("-fitt --fit-target", _TEXT, _PLACE, env="LLAMA_ARG_FIT_TARGET"),
    _warn("-fitc --fit-ctx", _COUNT, _PLACE, env="LLAMA_ARG_FIT_CTX"),
    _warn("--check-tensors", _SWITCH, _LOADING),
    _refuse("--override-kv", _TEXT, "metadata is read as it stands; write the change into the file"),
    _warn("--op-offload", Pair(("--no-op-offload",)), _PLACE, True),
    # context
    _warn("-ub --ubatch-size", Whole(1), "-b alone sizes a prompt's chunks", 512, env="LLAMA_ARG_UBATCH"),
    _warn("--swa-full", _SWITCH, _CACHE, env="LLAMA_ARG_SWA_FULL"),
    _refuse("--control-vector", _TEXT, _STEER),
    _refuse("--control-vector-scaled", _TEXT, _STEER),
    _warn("--control-vector-layer-range", Parsed(readers.range_of_two, "two whole numbers", "A B", 2), _STEER),
    _warn("-ctxcp --ctx-checkpoints --swa-checkpoints", Whole(-1), _CACHE, 32, env="LLAMA_ARG_CTX_CHECKPOINTS"),
    _warn("-cms --checkpoint-min-step", _COUNT, _CACHE, 8192, env="LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT"),
    _warn("--cache-reuse", _COUNT, "chunks are not shifted; whole prefixes are reused", 0, env="LLAMA_ARG_CACHE_REUSE"),
    # chat
    _refuse("--reasoning-preserve", Pair(("--no-reasoning-preserve",)), _THINK, env="LLAMA_ARG_REASONING_PRESERVE"),
    # RoPE
    _refuse("--rope-scaling", Choice(("none", "linear", "yarn")), _ROPE, env="LLAMA_ARG_ROPE_SCALING_TYPE"),
    _refuse("--rope-scale", Real(), _ROPE, env="LLAMA_ARG_ROPE_SCALE"),
    _refuse("--rope-freq-base", Real(), _ROPE, env="LLAMA_ARG_ROPE_FREQ_BASE"),
    _refuse("--rope-freq-scale", Real(), _ROPE, env="LLAMA_ARG_ROPE_FREQ_SCALE"),
    _refuse("--yarn-orig-ctx", _COUNT, _ROPE, 0, env="LLAMA_ARG_YARN_ORIG_CTX"),
    _refuse("--yarn-ext-factor", Real(), _ROPE, -1, env="LLAMA_ARG_YARN_EXT_FACTOR"),
    _refuse("--yarn-attn-factor", Real(), _ROPE, -1, env="LLAMA_ARG_YARN_ATTN_FACTOR"),
    _refuse("--yarn-beta-slow", Real(), _ROPE, -1, env="LLAMA_ARG_YARN_BETA_SLOW"),
    _refuse("--yarn-beta-fast", Real(), _ROPE, -1, env="LLAMA_ARG_YARN_BETA_FAST"),
    # model source
    _refuse("-mu --model-url", _TEXT, _SOURCE, env="LLAMA_ARG_MODEL_URL"),
    _refuse("-dr --docker-repo", _TEXT, _SOURCE, env="LLAMA_ARG_DOCKER_REPO"),
    # logging
    _warn("--log-prompts-dir", _FILE, "prompts are not written to files"),
    # speculation
    _partly(
        _warn(
            "--spec-draft-type-k -ctkd --cache-type-k-draft",
            _KV,
            _DTYPE,
            "f16",
            env="LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K",
        ),
        _UNPACKED,
        *_PACKED,
    ),
    _partly(
        _warn(
            "--spec-draft-type-v -ctvd --cache-type-v-draft",
            _KV,
            _DTYPE,
            "f16",
            env="LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V",
        ),
        _UNPACKED,
        *_PACKED,
    ),
    _refuse("-lcs --lookup-cache-static", _FILE, _LOOKUP_FILE),
    _refuse("-lcd --lookup-cache-dynamic", _FILE, _LOOKUP_FILE),
    _warn("--spec-draft-threads -td --threads-draft", Whole(-1), _THREADS),
    _warn("--spec-draft-threads-batch -tbd --threads-batch-draft", Whole(-1), _THREADS),
    _warn("--spec-draft-cpu-mask -Cd --cpu-mask-draft", _TEXT, _THREADS),
    _warn("--spec-draft-cpu-range -Crd --cpu-range-draft", _TEXT, _THREADS),
    _warn("--spec-draft-cpu-strict --cpu-strict-draft", _BIT, _THREADS),
    _warn("--spec-draft-prio --prio-draft", _PRIORITY, _THREADS, 0),
    _warn("--spec-draft-poll --poll-draft", Whole(0, 100), _THREADS),
    _warn("--spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft", _TEXT, _THREADS),
    _warn("--spec-draft-cpu-strict-batch --cpu-strict-batch-draft", _BIT, _THREADS),
    _warn("--spec-draft-prio-batch --prio-batch-draft", _PRIORITY, _THREADS, 0),
    _warn("--spec-draft-poll-batch --poll-batch-draft", Whole(0, 100), _THREADS),
    _warn("--spec-draft-override-tensor -otd --override-tensor-draft", _TEXT, _PLACE),
    _warn("--spec-draft-cpu-moe -cmoed --cpu-moe-draft", _SWITCH, _PLACE, env="LLAMA_ARG_SPEC_DRAFT_CPU_MOE"),
    _warn(
        "--spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft",
        _COUNT,
        _PLACE,
        env="LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE",
    ),
    _warn(
        "--spec-draft-p-split --draft-p-split",
        Real(0, 1),
        "proposals are lists, not trees",
        0.1,
        env="LLAMA_ARG_SPEC_DRAFT_P_SPLIT",
    ),
    _warn(
        "--spec-draft-backend-sampling",
        Pair(("--no-spec-draft-backend-sampling",)),
        _PLACE,
        True,
        env="LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING",
    ),
    _warn("--spec-draft-device -devd --device-draft", _TEXT, _PLACE),
    _warn(
        "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft",
        _LAYERS,
        _PLACE,
        "auto",
        env="LLAMA_ARG_N_GPU_LAYERS_DRAFT",
    ),
    *_ngram_rows(),
    _removed("--draft --draft-n --draft-max", "--spec-draft-n-max or --spec-ngram-mod-n-max", "LLAMA_ARG_DRAFT_MAX"),
    _removed("--draft-min --draft-n-min", "--spec-draft-n-min or --spec-ngram-mod-n-min", "LLAMA_ARG_DRAFT_MIN"),
    *(
        _removed(f"--spec-ngram-{name}", f"the respective --spec-ngram-*-{name}")
        for name in ("size-n", "size-m", "min-hits")
    ),
    _refuse("--spec-default", _SWITCH, "ngram-mod is not built yet; --spec-type ngram-simple is"),
    # sampling
    # embeddings
    _refuse("--rerank --reranking", _SWITCH, _RANK, env="LLAMA_ARG_RERANKING"),
    # multimodal
    _refuse("-mm --mmproj", _FILE, _SIGHT, env="LLAMA_ARG_MMPROJ"),
    _refuse("-mmu --mmproj-url", _TEXT, _SIGHT, env="LLAMA_ARG_MMPROJ_URL"),
    _warn("--mmproj-auto", Pair(("--no-mmproj", "--no-mmproj-auto")), _NO_EYES, True, env="LLAMA_ARG_MMPROJ_AUTO"),
    _warn("--mmproj-offload", Pair(("--no-mmproj-offload",)), _NO_EYES, True, env="LLAMA_ARG_MMPROJ_OFFLOAD"),
    _warn("-mmdev --mmproj-device", _TEXT, _NO_EYES, env="MTMD_BACKEND_DEVICE"),
    _warn("--image-min-tokens", _COUNT, _NO_EYES, env="LLAMA_ARG_IMAGE_MIN_TOKENS"),
    _warn("--image-max-tokens", _COUNT, _NO_EYES, env="LLAMA_ARG_IMAGE_MAX_TOKENS"),
    _warn("--mtmd-batch-max-tokens", _COUNT, _NO_EYES, 1024, env="LLAMA_ARG_MTMD_BATCH_MAX_TOKENS"),
    _warn("--media-path", _FILE, _NO_EYES),
    # UI and tools
    _refuse("--path", _FILE, "static files are not built yet; leave it out", "", env="LLAMA_ARG_STATIC_PATH"),
    _warn("--ui-config --webui-config", _TEXT, _NO_UI, env="LLAMA_ARG_UI_CONFIG"),
    _warn("--ui-config-file --webui-config-file", _FILE, _NO_UI, env="LLAMA_ARG_UI_CONFIG_FILE"),
    _refuse(
        "--ui-mcp-proxy --webui-mcp-proxy",
        Pair(("--no-ui-mcp-proxy", "--no-webui-mcp-proxy")),
        _TOOLS,
        False,
        env="LLAMA_ARG_UI_MCP_PROXY",
    ),
    _refuse("--tools", _TEXT, _TOOLS, env="LLAMA_ARG_TOOLS"),
    _warn("--tools-runtime", _TEXT, "the server runs no tools", env="LLAMA_ARG_TOOLS_RUNTIME"),
    _refuse("--mcp-servers-config", _FILE, _TOOLS, env="LLAMA_ARG_MCP_SERVERS_CONFIG"),
    _refuse("--mcp-servers-json", _TEXT, _TOOLS, env="LLAMA_ARG_MCP_SERVERS_JSON"),
    _refuse("-ag --agent", Pair(("-no-ag", "--no-agent")), _TOOLS, False, env="LLAMA_ARG_AGENT"),
    # endpoints and router
    _refuse("--models-dir", _FILE, _ROUTER, env="LLAMA_ARG_MODELS_DIR"),
    _refuse("--models-preset", _FILE, _ROUTER, env="LLAMA_ARG_MODELS_PRESET"),
    _warn("--models-max", _COUNT, _NO_ROUTER, 4, env="LLAMA_ARG_MODELS_MAX"),
    _warn("--models-autoload", Pair(("--no-models-autoload",)), _NO_ROUTER, True, env="LLAMA_ARG_MODELS_AUTOLOAD"),
    # presets
    *(
        _refuse(f"--{name}", _SWITCH, _PRESET)
        for name in (
            *("embd-gemma-default", "fim-qwen-1.5b-default", "fim-qwen-3b-default", "fim-qwen-7b-default"),
            *("fim-qwen-7b-spec", "fim-qwen-14b-spec", "fim-qwen-30b-default", "gpt-oss-20b-default"),
            *("gpt-oss-120b-default", "vision-gemma-4b-default", "vision-gemma-12b-default"),
        )
    ),
)
"""llama-server's options, in the order of its help."""


def options() -> tuple[Option, ...]:
    return tuple(row.option for row in TABLE)


def descriptions() -> Iterator[tuple[Option, str]]:
    """Every row with what happens to it, for a list to read."""
    for row in TABLE:
        if row.removed:
            yield row.option, "removed by llama-server too: " + row.why.partition(". ")[2]
        else:
            yield row.option, f"{'refused' if row.refuses else 'no effect'}: {row.why}"


def judge(given: Iterable[Given]) -> tuple[str, ...]:
    """One warning for each inert option that says something; StartError for the first that is refused."""
    rows = {row.option.name: row for row in TABLE}
    warnings: list[str] = []
    for item in given:
        row = rows.get(item.option.name)
        if row is None or item.value in row.quiet:
            continue
        if row.refuses or row.removed or item.value in row.refused:
            raise StartError(_refusal(row, item))
        warnings.append(f"{item.origin} has no effect: {row.why}")
    return tuple(warnings)


def _refusal(row: Row, item: Given) -> str:
    if row.removed:
        return f"{item.origin}: {row.why}"
    if row.refuses:
        return f"{item.origin} cannot be honoured: {row.why}"
    return f"{item.origin} {item.value} cannot be honoured: {row.refusal}"
