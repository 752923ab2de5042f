"""Every honoured option as one frozen class, and the only reader of the environment.

A field carries its spellings, its variable, its default and its domain. pydantic-settings is not used: it could
give the variables alone, but llama-server's rules for them (a flag switches on by four words only, the presence of
`LLAMA_ARG_NO_X`, keys that add up, a warning when the command line wins) would all have to be written beside it,
and a plain dataclass keeps `--help` at a tenth of a second.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.core.request import DEFAULT_SAMPLERS, DRY_BREAKERS, MAX_SEED, Sampling
from stoker.options import drafting, readers, vertex
from stoker.options.arguments import Given
from stoker.options.domains import MAX_INT, Choice, OnOff, Pair, Parsed, Real, Switch, Text, Whole
from stoker.options.drafting import Drafting
from stoker.options.option import Option, flag, options_of
from stoker.options.vertex import Vertex

MODEL = "Model"
RUNTIME = "Context and slots"
SAMPLING = "Sampling defaults (a request may say otherwise)"
SPECULATION = "Speculative decoding"
CHAT = "Chat templates"
HTTP = "HTTP, keys, CORS"
ENDPOINTS = "Endpoints"
LOGGING = "Logging"
INFO = "Print something and exit"

AUTO_SLOTS = 4
"""Slots when `-np` is unset, as upstream."""

_PATH = Text("FILE")
_KV = Choice(("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"))
_ORIGINS = Text("LIST")
_ONE = Parsed(readers.one, "a text")
_BIAS = Parsed(readers.logit_bias, "a token id, a sign and an amount (15043+1)", "ID+X")
_SAMPLERS = Parsed(readers.sampler_names, "names out of " + ", ".join(readers.SAMPLER_NAMES), "A;B")
_LIST = Parsed(readers.comma_list, "a comma-separated list", "A,B")
_TYPES = Parsed(drafting.read_spec_types, f"a list of {', '.join(drafting.SPEC_TYPES)}", "TYPES")
_RULES = Choice(tuple(setting.value for setting in Setting))
_SIZE = Whole(1, 1024)
"""Tokens of an n-gram or of what follows it."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the server runs with. Names are llama-server's; StartError when a value is outside its domain."""

    model: str = flag(
        "",
        "-m --model",
        Text("PATH"),
        "GGUF file, or MLX or Hugging Face directory; unset: SmolLM2-135M-Instruct, fetched once",
        env="LLAMA_ARG_MODEL",
        section=MODEL,
    )
    hf_repo: str = flag(
        "",
        "-hf -hfr --hf-repo",
        Text("USER/REPO[:QUANT]"),
        "Hugging Face repository, of MLX or GGUF weights",
        env="LLAMA_ARG_HF_REPO",
    )
    hf_file: str = flag("", "-hff --hf-file", _PATH, "file of that repository; beats :QUANT", env="LLAMA_ARG_HF_FILE")
    hf_token: str = flag("", "-hft --hf-token", Text("TOKEN"), "Hugging Face access token", env="HF_TOKEN", secret=True)
    offline: bool = flag(False, "--offline", Switch(), "use what is cached, never the network", env="LLAMA_ARG_OFFLINE")
    lora: tuple[str, ...] = flag(
        (), "--lora", _LIST, "folders of MLX adapters, scale 1; may be repeated", mode="collects"
    )
    lora_scaled: tuple[tuple[str, float], ...] = flag(
        (),
        "--lora-scaled",
        Parsed(readers.scaled_files, "folders with their scales (FOLDER:0.5)", "FOLDER:SCALE"),
        "folders of MLX adapters with scales, numbered behind those of --lora; may be repeated",
        mode="collects",
    )
    lora_init_without_apply: bool = flag(
        False, "--lora-init-without-apply", Switch(), "adapters begin with scale 0 (POST /lora-adapters sets others)"
    )
    alias: tuple[str, ...] = flag((), "-a --alias", _LIST, "names the model is served under", env="LLAMA_ARG_ALIAS")
    tags: tuple[str, ...] = flag((), "--tags", _LIST, "tags shown in /v1/models", env="LLAMA_ARG_TAGS")
    n_ctx: int = flag(
        0,
        "-c --ctx-size",
        Whole(0),
        "context in tokens, shared by the slots; 0: the model's",
        env="LLAMA_ARG_CTX_SIZE",
        section=RUNTIME,
    )
    n_predict: int = flag(
        -1,
        "-n --predict --n-predict",
        Whole(-1),
        "tokens to generate unless the request says; -1: until the end or a full context",
        env="LLAMA_ARG_N_PREDICT",
    )
    n_batch: int = flag(
        2048, "-b --batch-size", Whole(1), "most prompt tokens granted in one tick", env="LLAMA_ARG_BATCH"
    )
    n_keep: int = flag(0, "--keep", Whole(-1), "prompt tokens that a context shift keeps; -1: all")
    context_shift: bool = flag(
        False,
        "--context-shift",
        Pair(("--no-context-shift",)),
        "a full slot drops its oldest tokens, reads the others again and goes on",
        env="LLAMA_ARG_CONTEXT_SHIFT",
    )
    n_parallel: int = flag(
        -1,
        "-np --parallel",
        Whole(-1, but=(0,)),
        "slots; -1: 4 that may each use the whole context",
        env="LLAMA_ARG_N_PARALLEL",
    )
    kv_unified: bool | None = flag(
        None,
        "-kvu --kv-unified",
        Pair(("-no-kvu", "--no-kv-unified")),
        "each slot may use the whole context; default: only when -np is automatic",
        env="LLAMA_ARG_KV_UNIFIED",
    )
    cont_batching: bool = flag(
        True,
        "-cb --cont-batching",
        Pair(("-nocb", "--no-cont-batching")),
        "off: one row at a time",
        env="LLAMA_ARG_CONT_BATCHING",
    )
    cache_prompt: bool = flag(
        True,
        "--cache-prompt",
        Pair(("--no-cache-prompt",)),
        "reuse the part of a prompt that its slot already holds",
        env="LLAMA_ARG_CACHE_PROMPT",
    )
    cache_ram: int = flag(
        8192,
        "-cram --cache-ram",
        Whole(-1),
        "MiB for what slots held before; 0: none, -1: no limit; default: at most half of the free memory",
        env="LLAMA_ARG_CACHE_RAM",
    )
    cache_idle_slots: bool = flag(
        True,
        "--cache-idle-slots",
        Pair(("--no-cache-idle-slots",)),
        "a prompt may begin with a copy from any idle slot",
        env="LLAMA_ARG_CACHE_IDLE_SLOTS",
    )
    slot_prompt_similarity: float = flag(
        0.1, "-sps --slot-prompt-similarity", Real(0, 1), "share of a prompt that a slot must hold to be chosen for it"
    )
    cache_type_k: str = flag(
        "",
        "-ctk --cache-type-k",
        _KV,
        "type of stored keys, quantised ones in groups of 32; unset: the model's own",
        env="LLAMA_ARG_CACHE_TYPE_K",
    )
    cache_type_v: str = flag("", "-ctv --cache-type-v", _KV, "type of stored values", env="LLAMA_ARG_CACHE_TYPE_V")
    warmup: bool = flag(True, "--warmup", Pair(("--no-warmup",)), "one empty run before the first request")
    backend_sampling: bool = flag(
        False,
        "-bs --backend-sampling",
        Switch(),
        "sampling is always on the device; only reported",
        env="LLAMA_ARG_BACKEND_SAMPLING",
    )
    max_queue_depth: int = flag(
        0, "--max-queue-depth", Whole(0), "Stoker's own: requests that may wait, 503 beyond; 0: no bound"
    )
    grammar: str = flag("", "--grammar", Text("GBNF"), "grammar of answers whose request brings none", section=SAMPLING)
    samplers: tuple[str, ...] = flag(
        DEFAULT_SAMPLERS, "--samplers", _SAMPLERS, "sampler order, names between semicolons", section=SAMPLING
    )
    seed: int = flag(-1, "-s --seed", Whole(-1, MAX_SEED), "-1: a random one for each request")
    ignore_eos: bool = flag(False, "--ignore-eos", Switch(), "never choose an end token")
    temperature: float = flag(0.8, "--temp --temperature", Real(0, soft=True), "0: greedy")
    top_k: int = flag(40, "--top-k", Whole(0, soft=True), "0: off", env="LLAMA_ARG_TOP_K")
    top_p: float = flag(0.95, "--top-p", Real(0, 1, soft=True), "1: off")
    min_p: float = flag(0.05, "--min-p", Real(0, 1, soft=True), "0: off")
    top_n_sigma: float = flag(-1.0, "--top-nsigma --top-n-sigma", Real(), "negative: off")
    xtc_probability: float = flag(0.0, "--xtc-probability", Real(0, 1, soft=True), "0: off")
    xtc_threshold: float = flag(0.1, "--xtc-threshold", Real(0, 1, soft=True), "above 0.5: off")
    typical_p: float = flag(1.0, "--typical --typical-p", Real(), "1: off")
    repeat_last_n: int = flag(64, "--repeat-last-n", Whole(0), "tokens that the penalties look at; 0: off")
    repeat_penalty: float = flag(1.0, "--repeat-penalty", Real(), "1: off")
    presence_penalty: float = flag(0.0, "--presence-penalty", Real(), "0: off")
    frequency_penalty: float = flag(0.0, "--frequency-penalty", Real(), "0: off")
    dry_multiplier: float = flag(0.0, "--dry-multiplier", Real(), "0: off")
    dry_base: float = flag(1.75, "--dry-base", Real(1), "base of the DRY penalty")
    dry_allowed_length: int = flag(2, "--dry-allowed-length", Whole(0), "repeated tokens that DRY lets pass")
    dry_penalty_last_n: int = flag(64, "--dry-penalty-last-n", Whole(0), "tokens that DRY looks at; 0: off")
    adaptive_target: float = flag(-1.0, "--adaptive-target", Real(le=1, soft=True), "negative: off")
    adaptive_decay: float = flag(0.9, "--adaptive-decay", Real(0, 0.99), "memory of adaptive-p")
    dynatemp_range: float = flag(0.0, "--dynatemp-range", Real(), "0: off")
    dynatemp_exponent: float = flag(1.0, "--dynatemp-exp", Real(), "exponent of the dynamic temperature")
    mirostat: int = flag(0, "--mirostat", Whole(0, 2), "0: off, 1 and 2: the version")
    mirostat_eta: float = flag(0.1, "--mirostat-lr", Real(), "learning rate of mirostat")
    mirostat_tau: float = flag(5.0, "--mirostat-ent", Real(), "target entropy of mirostat")
    escape: bool = flag(
        True, "-e --escape", Pair(("--no-escape",)), "read backslash escapes in -r and --dry-sequence-breaker"
    )
    logit_bias: tuple[tuple[int, float], ...] = flag(
        (), "-l --logit-bias", _BIAS, "make a token likelier or rarer; may be repeated", mode="collects"
    )
    reverse_prompt: tuple[str, ...] = flag(
        (), "-r --reverse-prompt", _ONE, "stop string for requests that bring none; may be repeated", mode="collects"
    )
    dry_sequence_breaker: tuple[str, ...] = flag(
        (),
        "--dry-sequence-breaker",
        _ONE,
        "replaces the default breakers; none: no breakers; may be repeated",
        mode="collects",
    )
    draft_kind: str = flag(
        drafting.AUTO,
        "--draft-kind",
        Choice(drafting.DRAFT_KINDS),
        "Stoker's own: what drafts; auto: the draft model, as what it is, or what comes with the default model",
        section=SPECULATION,
    )
    draft_model: str = flag(
        "",
        "--draft-model --spec-draft-model -md --model-draft",
        Text("PATH"),
        "a drafter made for the model, or a smaller model with the same vocabulary",
        env="LLAMA_ARG_SPEC_DRAFT_MODEL",
    )
    draft_hf_repo: str = flag(
        "",
        "--spec-draft-hf -hfd -hfrd --hf-repo-draft",
        Text("USER/REPO[:QUANT]"),
        "Hugging Face repository of the draft model",
        env="LLAMA_ARG_SPEC_DRAFT_HF_REPO",
    )
    spec_type: tuple[str, ...] | None = flag(
        None,
        "--spec-type",
        _TYPES,
        "draft-simple, draft-dflash, draft-dspark, draft-mtp, ngram-simple or none; --draft-kind says more",
        env="LLAMA_ARG_SPEC_TYPE",
    )
    draft_n_max: int = flag(
        3, "--spec-draft-n-max", Whole(0), "most proposals of a round; 0: none", env="LLAMA_ARG_SPEC_DRAFT_N_MAX"
    )
    draft_n_min: int = flag(
        0, "--spec-draft-n-min", Whole(0), "fewer proposals are not verified", env="LLAMA_ARG_SPEC_DRAFT_N_MIN"
    )
    draft_p_min: float = flag(
        0.0,
        "--spec-draft-p-min --draft-p-min",
        Real(0, 1),
        "least probability that a draft model gives its own proposal",
        env="LLAMA_ARG_SPEC_DRAFT_P_MIN",
    )
    ngram_size_n: int = flag(12, "--spec-ngram-simple-size-n", _SIZE, "ngram-simple: tokens that must have occurred")
    ngram_size_m: int = flag(48, "--spec-ngram-simple-size-m", _SIZE, "ngram-simple: most tokens that are proposed")
    ngram_min_hits: int = flag(1, "--spec-ngram-simple-min-hits", Whole(1), "ngram-simple: occurrences that it takes")
    prompt_lookup_adaptive: bool = flag(
        True,
        "--no-prompt-lookup-adaptive",
        Switch(sets=False),
        "Stoker's own: prompt lookup goes on however little it yields",
    )
    accept_rule: str = flag(
        Setting.MATCH.value,
        "--accept-rule",
        _RULES,
        "Stoker's own: how proposals are judged at temperature > 0; argmax is biased",
    )
    draft_coupling: str = flag(
        "on", "--draft-coupling", OnOff(auto=False), "Stoker's own: target and drafter draw with the same noise"
    )
    exactness: str = flag(
        "decided",
        "--exactness",
        Choice(drafting.EXACTNESS),
        "Stoker's own: how equal a forward of several tokens must be to single steps",
    )
    jinja: bool = flag(
        True,
        "--jinja",
        Pair(("--no-jinja",)),
        "off: requests with tools are refused",
        env="LLAMA_ARG_JINJA",
        section=CHAT,
    )
    chat_template: str = flag(
        "",
        "--chat-template",
        Text("JINJA"),
        "template text or the name of a built-in one; default: the model's",
        env="LLAMA_ARG_CHAT_TEMPLATE",
    )
    chat_template_kwargs: Mapping[str, object] | None = flag(
        None,
        "--chat-template-kwargs",
        Parsed(readers.json_object, "a JSON object", "JSON"),
        "variables for the template",
        env="LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
    )
    prefill_assistant: bool = flag(
        True,
        "--prefill-assistant",
        Pair(("--no-prefill-assistant",)),
        "continue a final assistant message",
        env="LLAMA_ARG_PREFILL_ASSISTANT",
    )
    reasoning_format: str = flag(
        "auto",
        "--reasoning-format",
        Choice(("none", "auto", "deepseek", "deepseek-legacy")),
        "none: thoughts stay in the content; deepseek-legacy: only those of streams; auto: in reasoning_content",
        env="LLAMA_ARG_THINK",
    )
    reasoning: str = flag(
        "auto",
        "-rea --reasoning",
        OnOff(),
        "whether the template makes the model think; auto: as it likes",
        env="LLAMA_ARG_REASONING",
    )
    reasoning_effort: str = flag(
        "default",
        "--reasoning-effort",
        Text("EFFORT"),
        "reasoning_effort of requests that name none; none: no thoughts; default: the template's",
        env="LLAMA_ARG_REASONING_EFFORT",
    )
    reasoning_budget: int = flag(
        -1,
        "--reasoning-budget",
        Whole(-1),
        "tokens that a thought may have; -1: no bound",
        env="LLAMA_ARG_THINK_BUDGET",
    )
    reasoning_budget_message: str = flag(
        "",
        "--reasoning-budget-message",
        Text(),
        "said where a thought has used up its budget, before it ends",
        env="LLAMA_ARG_THINK_BUDGET_MESSAGE",
    )
    skip_chat_parsing: bool = flag(
        False,
        "--skip-chat-parsing",
        Pair(("--no-skip-chat-parsing",)),
        "thoughts and tool calls stay in the content",
        env="LLAMA_ARG_SKIP_CHAT_PARSING",
    )
    special: bool = flag(False, "-sp --special", Switch(), "show control tokens in the text")
    host: str = flag(
        "127.0.0.1",
        "--host",
        Text("ADDRESS"),
        "address to listen on; a name that ends in .sock is a Unix socket",
        env="LLAMA_ARG_HOST",
        section=HTTP,
    )
    port: int = flag(8080, "--port", Whole(0, 65535), "0: any free one", env="LLAMA_ARG_PORT")
    reuse_port: bool = flag(
        False, "--reuse-port", Switch(), "several servers may listen on the port", env="LLAMA_ARG_REUSE_PORT"
    )
    api_prefix: str = flag("", "--api-prefix", Text("PATH"), "put before every route", env="LLAMA_ARG_API_PREFIX")
    api_keys: tuple[str, ...] = flag(
        (),
        "--api-key",
        _LIST,
        "keys, any of which opens; adds to the variable",
        env="LLAMA_API_KEY",
        mode="joins-env",
        secret=True,
    )
    api_key_file: tuple[str, ...] = flag(
        (),
        "--api-key-file",
        Parsed(readers.key_file, "a file of keys", "FILE"),
        "keys, one a line",
        env="LLAMA_ARG_API_KEY_FILE",
        secret=True,
    )
    cors_origins: str = flag(
        "*", "--cors-origins", _ORIGINS, "allowed origins; localhost is special", env="LLAMA_ARG_CORS_ORIGINS"
    )
    cors_methods: str = flag(
        "GET, POST, DELETE, OPTIONS", "--cors-methods", _ORIGINS, "allowed methods", env="LLAMA_ARG_CORS_METHODS"
    )
    cors_headers: str = flag("*", "--cors-headers", _ORIGINS, "allowed headers", env="LLAMA_ARG_CORS_HEADERS")
    cors_credentials: bool = flag(
        True,
        "--cors-credentials",
        Pair(("--no-cors-credentials",)),
        "allow credentials",
        env="LLAMA_ARG_CORS_CREDENTIALS",
    )
    ssl_key_file: str = flag(
        "", "--ssl-key-file", _PATH, "private key, PEM; needs --ssl-cert-file", env="LLAMA_ARG_SSL_KEY_FILE"
    )
    ssl_cert_file: str = flag("", "--ssl-cert-file", _PATH, "certificate, PEM", env="LLAMA_ARG_SSL_CERT_FILE")
    timeout: int = flag(
        3600, "-to --timeout", Whole(1), "seconds that a read or a write may take", env="LLAMA_ARG_TIMEOUT"
    )
    sse_ping_interval: int = flag(
        30,
        "--sse-ping-interval",
        Whole(-1),
        "seconds of silence before a ping on a stream; 0 and -1: none",
        env="LLAMA_ARG_SSE_PING_INTERVAL",
    )
    threads_http: int = flag(
        -1,
        "--threads-http",
        Whole(-1, but=(0,)),
        "threads for tokenizing and templates; -1: automatic",
        env="LLAMA_ARG_THREADS_HTTP",
    )
    embeddings: bool = flag(
        False,
        "--embedding --embeddings",
        Switch(),
        "POST /embedding and /v1/embeddings",
        env="LLAMA_ARG_EMBEDDINGS",
        section=ENDPOINTS,
    )
    pooling: str = flag(
        "",
        "--pooling",
        Choice(("none", "mean", "cls", "last")),
        "how token vectors become an embedding; default: as the model's files say, else none",
        env="LLAMA_ARG_POOLING",
    )
    embd_normalize: int = flag(
        2, "--embd-normalize", Whole(-1), "-1: none, 0: largest to 32760, 1: taxicab, 2: Euclidean, above: p-norm"
    )
    spm_infill: bool = flag(
        False, "--spm-infill", Switch(), "/infill puts what stands behind the gap first, as some models want it"
    )
    metrics: bool = flag(False, "--metrics", Switch(), "GET /metrics", env="LLAMA_ARG_ENDPOINT_METRICS")
    props: bool = flag(False, "--props", Switch(), "POST /props", env="LLAMA_ARG_ENDPOINT_PROPS")
    slots: bool = flag(True, "--slots", Pair(("--no-slots",)), "GET /slots", env="LLAMA_ARG_ENDPOINT_SLOTS")
    slot_save_path: str = flag(
        "", "--slot-save-path", Text("FOLDER"), "POST /slots/N saves to and restores from files there; unset: refused"
    )
    sleep_idle_seconds: int = flag(
        -1, "--sleep-idle-seconds", Whole(-1, but=(0,)), "idle seconds until the model is freed; -1: never"
    )
    ui: bool = flag(True, "--ui --webui", Pair(("--no-ui", "--no-webui")), "a small page at /", env="LLAMA_ARG_UI")
    log_disable: bool = flag(False, "--log-disable", Switch(), "no log at all", section=LOGGING)
    log_file: str = flag("", "--log-file", _PATH, "write the log to a file too", env="LLAMA_ARG_LOG_FILE")
    log_colors: str = flag(
        "auto", "--log-colors", OnOff(), "auto: when it goes to a terminal", env="LLAMA_ARG_LOG_COLORS"
    )
    verbosity: int = flag(
        3,
        "-lv --verbosity --log-verbosity",
        Whole(0),
        "0 output, 1 errors, 2 warnings, 3 info, 4 trace, 5 debug",
        env="LLAMA_ARG_LOG_VERBOSITY",
    )
    log_prefix: bool = flag(
        False, "--log-prefix", Pair(("--no-log-prefix",)), "the level's letter in each line", env="LLAMA_ARG_LOG_PREFIX"
    )
    log_timestamps: bool = flag(
        False,
        "--log-timestamps",
        Pair(("--no-log-timestamps",)),
        "time since the start in each line",
        env="LLAMA_ARG_LOG_TIMESTAMPS",
    )
    slots_debug: bool = False
    """`LLAMA_SERVER_SLOTS_DEBUG`: `/slots` shows prompts and answers."""
    accept_diagnostic: bool = False
    """`STOKER_SPECULATIVE_ACCEPT_DIAG`: acceptance is held against its closed forms in the log."""
    named: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Fields that the command line or a variable filled, their defaults included."""
    vertex: Vertex | None = None
    """The routes of Vertex AI, where the server runs there (`AIP_MODE=PREDICTION`)."""
    cache_dir: str = "~/.cache/stoker"
    """Under `XDG_CACHE_HOME` where that is set."""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            value: object = getattr(self, option.field)
            if value != type(self).__dataclass_fields__[option.field].default:
                object.__setattr__(self, option.field, _settled(option, value))
        if bool(self.ssl_key_file) != bool(self.ssl_cert_file):
            raise StartError("--ssl-key-file and --ssl-cert-file need each other: give both or neither")
        if self.hf_file and not self.hf_repo:
            raise StartError("--hf-file names a file of a repository: give --hf-repo too")
        if self.slot_save_path and not Path(self.slot_save_path).is_dir():
            raise StartError(f"--slot-save-path: {self.slot_save_path} is not a directory; make it first")
        if self.draft_model and self.draft_hf_repo:
            raise StartError("--draft-model (-md) and --spec-draft-hf name two draft models: give one of them")
        self.drafting()

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that opens the server, those of `--api-key-file` included."""
        return (*self.api_keys, *self.api_key_file)

    @property
    def adapters(self) -> tuple[tuple[str, float], ...]:
        """Folder and scale of each adapter, in the order of their numbers."""
        named = (*((path, 1.0) for path in self.lora), *self.lora_scaled)
        return tuple((path, 0.0 if self.lora_init_without_apply else scale) for path, scale in named)

    @property
    def n_slots(self) -> int:
        return AUTO_SLOTS if self.n_parallel < 0 else self.n_parallel

    def slot_context(self, trained: int) -> int:
        """Tokens that one slot may hold, given the model's own context: `-c` is shared unless the slots are unified."""
        total = self.n_ctx or trained
        unified = self.n_parallel < 0 if self.kv_unified is None else self.kv_unified
        return total if unified else total // self.n_slots

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings for requests that bring none."""
        return tuple(map(self._unescaped, self.reverse_prompt))

    @property
    def template_variables(self) -> Mapping[str, object]:
        """Of every chat; a request may set others. `--chat-template-kwargs` says the last word."""
        variables: dict[str, object] = {}
        if self.reasoning != "auto":
            variables["enable_thinking"] = self.reasoning == "on"
        if self.reasoning_effort == "none":
            variables["enable_thinking"] = False
        elif self.reasoning_effort != "default":
            variables["reasoning_effort"] = self.reasoning_effort
        return variables | dict(self.chat_template_kwargs or {})

    def sampling(self) -> Sampling:
        """The default chain of a request; `seed` is 4294967295, llama-server's word for random, when none is set."""
        breakers = DRY_BREAKERS
        if self.dry_sequence_breaker:
            breakers = tuple(self._unescaped(b) for b in self.dry_sequence_breaker if b != "none")
        return Sampling(
            seed=self.seed % (MAX_SEED + 1),
            temperature=self.temperature,
            dynatemp_range=self.dynatemp_range,
            dynatemp_exponent=self.dynatemp_exponent,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            top_n_sigma=self.top_n_sigma,
            xtc_probability=self.xtc_probability,
            xtc_threshold=self.xtc_threshold,
            typical_p=self.typical_p,
            repeat_last_n=self.repeat_last_n,
            repeat_penalty=self.repeat_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            dry_multiplier=self.dry_multiplier,
            dry_base=self.dry_base,
            dry_allowed_length=self.dry_allowed_length,
            dry_penalty_last_n=self.dry_penalty_last_n,
            dry_sequence_breakers=breakers,
            mirostat=self.mirostat,
            mirostat_tau=self.mirostat_tau,
            mirostat_eta=self.mirostat_eta,
            adaptive_target=self.adaptive_target,
            adaptive_decay=self.adaptive_decay,
            logit_bias=self.logit_bias,
            samplers=self.samplers,
        )

    def drafting(self) -> Drafting:
        """The drafter and its rule. StartError where the options contradict each other."""
        has_model = bool(self.draft_model or self.draft_hf_repo)
        shipped = not (self.model or self.hf_repo or has_model)
        kind = drafting.choose(self.draft_kind, self.spec_type, has_model=has_model, shipped=shipped)
        most, longest, shortest = self._draft_sizes(kind)
        if not most:
            kind = None
        used = kind not in (None, Kind.PROMPT_LOOKUP)
        return Drafting(
            kind=kind,
            auto=used and self.draft_kind == drafting.AUTO and not self.spec_type,
            shipped=shipped and kind is drafting.SHIPPED,
            limited="draft_n_max" in self.named,
            model=self.draft_model if used else "",
            repo=self.draft_hf_repo if used else "",
            most=most,
            least=min(self.draft_n_min, most),
            p_min=self.draft_p_min,
            ngram_max=longest,
            ngram_min=shortest,
            min_hits=self.ngram_min_hits,
            adaptive=self.prompt_lookup_adaptive,
            rule=Setting(self.accept_rule),
            coupled=self.draft_coupling == "on",
            diagnostic=self.accept_diagnostic,
            exactness=self.exactness,
        )

    def _draft_sizes(self, kind: Kind | None) -> tuple[int, int, int]:
        """Most proposals, longest and shortest n-gram.

        `ngram-simple` brings its own sizes; `prompt-lookup` has others, unless a size was given.
        """
        longest, shortest = drafting.LOOKUP_NGRAM
        if kind is not Kind.PROMPT_LOOKUP:
            return self.draft_n_max, longest, shortest
        simple, most = "ngram-simple" in (self.spec_type or ()), drafting.LOOKUP_MOST
        if simple or "ngram_size_n" in self.named:
            longest = shortest = self.ngram_size_n
        if simple or "ngram_size_m" in self.named:
            most = self.ngram_size_m
        elif "draft_n_max" in self.named:
            most = self.draft_n_max
        return most, longest, shortest

    def _unescaped(self, text: str) -> str:
        return readers.unescape(text) if self.escape else text


EXTRA = (
    Option(
        spellings=("--grammar-file",),
        takes=Parsed(readers.file_text, "a file", "FILE"),
        field="grammar",
        section=SAMPLING,
        help="file with the grammar",
    ),
    Option(
        spellings=("-j", "--json-schema"),
        takes=Parsed(readers.schema, "a JSON schema", "SCHEMA"),
        field="grammar",
        section=SAMPLING,
        help="JSON schema of answers whose request brings no grammar",
    ),
    Option(
        spellings=("-jf", "--json-schema-file"),
        takes=Parsed(readers.schema_file, "a file with a JSON schema", "FILE"),
        field="grammar",
        section=SAMPLING,
        help="file with the schema",
    ),
    Option(
        spellings=("--sampler-seq", "--sampling-seq"),
        takes=Parsed(readers.sampler_letters, "letters out of " + "".join(readers.SAMPLER_LETTERS), "LETTERS"),
        field="samplers",
        section=SAMPLING,
        help="sampler order, a letter each",
    ),
    Option(
        spellings=("--chat-template-file",),
        takes=Parsed(readers.file_text, "a file", "FILE"),
        field="chat_template",
        env="LLAMA_ARG_CHAT_TEMPLATE_FILE",
        section=CHAT,
        help="file with the template",
    ),
    Option(
        spellings=("-v", "--verbose", "--log-verbose"),
        takes=Switch(sets=MAX_INT),
        field="verbosity",
        section=LOGGING,
        help="log everything",
    ),
)
"""Second ways to fill a field; of several given the last one counts."""


def options() -> tuple[Option, ...]:
    """Every honoured option that fills a field."""
    return (*options_of(Settings), *EXTRA)


def environment() -> dict[str, str]:
    """The process's variables, read here and nowhere else."""
    return dict(os.environ)


def disarm_mlx() -> None:
    """Keeps MLX's CUDA caches from ending a long-lived server. To be called before MLX makes its first array.

    They count their misses over the whole life of the process and throw for ever after some hundred, which a server
    reaches by prompts of different lengths alone (ml-explore/mlx, backend/cuda/lru_cache.h). Who sets the variable is
    obeyed.
    """
    os.environ.setdefault("MLX_ENABLE_CACHE_THRASHING_CHECK", "0")


def settings(given: Iterable[Given], environ: Mapping[str, str]) -> Settings:
    """Settings out of what was given; of two options for one field the later one counts."""
    values: dict[str, Any] = {g.option.field: g.value for g in given if g.option.field}
    named = frozenset(values)
    debug = environ.get("LLAMA_SERVER_SLOTS_DEBUG", "0") not in ("", "0")
    stochastic = drafting.variable(environ, "SPECULATIVE_STOCHASTIC_ACCEPT")
    if stochastic is not None:
        values.setdefault("accept_rule", (Setting.STOCHASTIC if stochastic else Setting.MATCH).value)
    place = vertex.read(environ)
    if place is not None:
        values["port"] = place.port
    return Settings(
        **values,
        vertex=place,
        slots_debug=debug,
        accept_diagnostic=bool(drafting.variable(environ, "SPECULATIVE_ACCEPT_DIAG")),
        named=named,
        cache_dir=cache_directory(environ),
    )


def cache_directory(environ: Mapping[str, str]) -> str:
    """Where fetched models go; a relative `XDG_CACHE_HOME` is ignored, as its specification asks."""
    home = environ.get("XDG_CACHE_HOME", "")
    return str(Path(home) / "stoker") if Path(home).is_absolute() else "~/.cache/stoker"


def _settled(option: Option, value: object) -> object:
    try:
        return option.takes.settle(value)
    except ValueError:
        raise StartError(f"{option.name} takes {option.takes.describe}, not {value!r}") from None
