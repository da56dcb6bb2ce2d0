# SPDX-License-Identifier: Apache-2.0
"""HydraMix encoders in PyTorch, for Hugging Face's transformers.

    from transformers import AutoModelForMaskedLM, AutoTokenizer
    model = AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=True)

The modules have the weight names of HydraMix's files and compute the same functions:

    e      = LayerNorm( word[id] + type[type_id] + position[index in sequence] )
    x      = LayerNorm( x + block(x) ), or x + block( LayerNorm(x) ); the same with the MLP
    block  : [z | x, columns] = in_proj u;  convolution and SiLU of x and columns;
             out = out_proj( rms_norm( mixer(x) ) * silu(z) )

Scans run in chunks: L / 64 steps of small matrix products, linear in the length L. Padding is exact
on either side: the result of a padded batch is that of each sequence alone. Masks may have holes:
the tokens of a row are one sequence in their order, as if the padding between them were not there.

Where the Python package `hydramix` is installed, its kernels compute the blocks.
"""
import json
import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from .configuration_hydramix import HydraMixConfig

try:
    import hydramix  # noqa: F401  registers its operators

    run_module = torch.ops.hydramix.run
except (AttributeError, ImportError, OSError):  # the modules below compute everything in PyTorch
    run_module = None

CHUNK = 64  # positions of a scan that one product covers
CAUSAL = ("semiseparable", "attention_causal")
TWO_SCANS = ("hydra", "quasiseparable_dd", "add", "mult", "concat")
ATTENTION = ("attention", "attention_causal", "attention_dd")
FLAT = ("hydra",)  # mixers whose weights are named in the block itself


# ---- scans -------------------------------------------------------------------------------------


def range_sums(a):
    """(..., T) -> (..., T, T): entry (i, j) is a_{j+1} + ... + a_i for i >= j, else -infinity.

    Sums of the terms themselves: differences of running sums would cancel.
    """
    T = a.size(-1)
    ones = torch.ones(T, T, dtype=torch.bool, device=a.device)
    terms = a.unsqueeze(-1).expand(*a.shape, T).masked_fill(~ones.tril(-1), 0)
    return terms.cumsum(-2).masked_fill(~ones.tril(), -math.inf)


def scan(x, dt, A, b, c, start=None):
    """y_i = sum_{j <= i} c_i . b_j exp(A (dt_{j+1} + ... + dt_i)) dt_j x_j, the causal scan.

    x (B, L, H, P); dt (B, L, H), zero where the state must not change; A (H), negative;
    b, c (B, L, G, N), shared by the H / G heads of a group;
    start (H, P, N), the first state, or None for zero.
    """
    B, L, H, P = x.shape
    C = -(-L // CHUNK)
    T = min(L, CHUNK)

    def chunks(t):  # (B, L, ...) -> (B, C, T, ...)
        if C * T > L:
            t = F.pad(t, (0, 0) * (t.dim() - 2) + (0, C * T - L))
        return t.reshape(B, C, T, *t.shape[2:])

    b = chunks(b.repeat_interleave(H // b.size(2), 2))  # (B, C, T, H, N)
    c = chunks(c.repeat_interleave(H // c.size(2), 2))
    dx = chunks(x * dt.unsqueeze(-1))  # (B, C, T, H, P)
    a = chunks(dt * A).transpose(2, 3)  # (B, C, H, T), <= 0
    decay = range_sums(a).exp()  # (B, C, H, T, T)

    # Within a chunk, the matrix; between chunks, the state.
    scores = torch.einsum("bcihn,bcjhn->bchij", c, b) * decay
    y = torch.einsum("bchij,bcjhp->bcihp", scores, dx)
    added = torch.einsum("bchj,bcjhp,bcjhn->bchpn", decay[..., -1, :], dx, b)
    from_start = a.cumsum(-1).exp()  # (B, C, H, T)
    state = x.new_zeros(B, H, P, b.size(-1)) if start is None else start.expand(B, -1, -1, -1)
    before = []
    for k in range(C):
        before.append(state)
        state = from_start[:, k, :, -1, None, None] * state + added[:, k]
    before = torch.stack(before, 1)  # (B, C, H, P, N)
    y = y + torch.einsum("bcihn,bchi,bchpn->bcihp", c, from_start, before)
    return y.reshape(B, C * T, H, P)[:, :L]


def shift(t):
    """Shifts (B, L, ...) by one position; zero comes first."""
    return torch.cat([torch.zeros_like(t[:, :1]), t[:, :-1]], 1)


# ---- mixers ------------------------------------------------------------------------------------


class StateSpace(nn.Module):
    """The weights per head that scans share. In Hydra's published names they lie in the block."""

    def __init__(self, heads, options, skip):
        super().__init__()
        add_state_space(self, heads, options, skip)


def add_state_space(module, heads, options, skip):
    module.A_log = nn.Parameter(torch.zeros(heads))
    if skip:
        module.D = nn.Parameter(torch.ones(heads))
    module.dt_bias = nn.Parameter(initial_dt_bias(heads, options))


def initial_dt_bias(heads, options):
    """The inverse softplus of steps that are log-uniform between dt_min and dt_max."""
    low, high = math.log(options["dt_min"]), math.log(options["dt_max"])
    dt = (torch.rand(heads) * (high - low) + low).exp().clamp(min=options["dt_init_floor"])
    return dt + torch.log(-torch.expm1(-dt))


def limit(value):
    return math.inf if value in ("inf", ".inf") else float(value)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))


class Block(nn.Module):
    """u (B, L, d_model), mask (B, L) bool or None: tokens first, padding after them."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.spec = json.dumps({"kind": "block", "block": options})
        self.mixer, self.style = options["mixer"], options["style"]
        mixing = options["mixer_options"]
        self.P = options["headdim"]
        self.H = round(options["expand"] * options["d_model"]) // self.P
        self.d_inner = self.H * self.P
        self.groups, self.N = mixing["groups"], mixing["d_state"]
        self.dropout = mixing["dropout"]
        self.dt_limits = limit(mixing["dt_limit_low"]), limit(mixing["dt_limit_high"])
        self.columns = self.mixer_columns(mixing)
        width = sum(width for width, _, _ in self.columns)
        convolved = sum(width for width, conv, _ in self.columns if conv) + self.d_inner
        combined = self.d_inner * (2 if self.mixer == "concat" else 1)
        parts = 2 if self.style == "mamba" else 1
        bias = options["bias"]
        self.in_proj = nn.Linear(options["d_model"], parts * self.d_inner + width, bias=bias)
        self.out_proj = nn.Linear(combined, options["d_model"], bias=bias)
        if self.style == "mamba":
            self.conv1d = nn.Conv1d(
                convolved, convolved, options["d_conv"], groups=convolved, bias=options["conv_bias"]
            )
            self.norm = RmsNorm(combined)
        if self.mixer in ATTENTION:
            return
        skip = self.mixer != "semiseparable" or mixing["skip"]
        weights = self
        if self.mixer in FLAT:
            add_state_space(self, self.H, mixing, skip)
        else:
            weights = self.matrix_mixer = StateSpace(self.H, mixing, skip)
        if self.mixer in ("hydra", "quasiseparable_dd"):
            weights.fc_D = nn.Linear(self.d_inner, self.H, bias=False)
        if self.mixer == "hydra" and mixing["learn_initial_states"]:
            self.init_states = nn.Parameter(torch.zeros(self.H, self.P, self.N))

    def mixer_columns(self, mixing):
        """(width, convolved, SiLU) of the mixer's columns, in their order in in_proj."""
        H = self.H
        if self.mixer in ATTENTION:
            return [(H * mixing["qk_dim"], True, False)] * 2
        if self.mixer == "quasiseparable_dd":  # one group; b and c shared by both directions
            self.groups, self.N = 1, H * mixing["qk_dim"]
            return [(self.N, True, True)] * 2 + [(H, False, False)] * 2
        directions = 2 if self.mixer in TWO_SCANS else 1
        of_state = (self.groups * self.N, True, True)
        return [of_state] * (2 * directions) + [(H, False, False)] * directions

    def forward(self, u, mask=None):
        if run_module is not None and self.has_kernels(u):
            return self.compiled(u, mask)
        w = self.in_proj(u)
        if mask is not None:  # the convolution sees zeros beside the sequence
            w = w.masked_fill(~mask.unsqueeze(-1), 0)
        z, x, columns = self.preprocessed(w)
        y = self.mixed(x.unflatten(-1, (self.H, self.P)), columns, mask)
        if self.style == "mamba":
            if self.mixer == "concat":
                z = torch.cat([z, z], -1)
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
            y = y * self.norm.weight * F.silu(z)
        return self.out_proj(y.to(u.dtype))

    def has_kernels(self, u):
        """Whether the package `hydramix` computes such inputs."""
        weights = self.in_proj.weight.dtype
        return u.device.type in ("cpu", "cuda") and (
            (u.dtype == weights and weights in (torch.float32, torch.float64))
            or (u.dtype == torch.bfloat16 and weights == torch.float32)
        )

    def compiled(self, u, mask):
        weights = dict(self.named_parameters())
        dropped = self.training and self.dropout > 0
        seed = torch.randint(2**53, ()) if dropped else None
        extras = [None, mask, None, None, seed]
        ordered = [weights[name] for name in sorted(weights)]
        return run_module(self.spec, "forward", False, u, extras, ordered)

    def preprocessed(self, w):
        widths = [width for width, _, _ in self.columns]
        if self.style != "mamba":
            x, *columns = w.split([self.d_inner, *widths], -1)
            return None, x, columns
        convolved = self.conv1d.weight.size(0)
        z, v, plain = w.split([self.d_inner, convolved, w.size(-1) - self.d_inner - convolved], -1)
        K = self.conv1d.weight.size(2)
        causal = self.mixer in CAUSAL or self.options["causal_conv"]
        before = K - 1 if causal else K // 2
        v = self.conv1d(F.pad(v.transpose(1, 2), (before, K - 1 - before))).transpose(1, 2)
        x, *columns = torch.cat([v, plain], -1).split([self.d_inner, *widths], -1)
        columns = [F.silu(t) if silu else t for t, (_, _, silu) in zip(columns, self.columns)]
        return z, F.silu(x), columns

    def mixed(self, x, columns, mask):
        """x (B, L, H, P) -> (B, L, combined channels)"""
        if self.mixer in ATTENTION:
            return self.attended(x, *columns, mask).flatten(2)
        # Scans need float32: products of many decays.
        with torch.autocast(x.device.type, enabled=False):
            type_ = torch.float64 if x.dtype == torch.float64 else torch.float32
            x, columns = x.to(type_), [t.to(type_) for t in columns]
            return self.scanned(x, columns, mask).flatten(2)

    def attended(self, x, q, k, mask):
        q, k = (t.unflatten(-1, (self.H, -1)).transpose(1, 2) for t in (q, k))
        v = x.transpose(1, 2)  # (B, H, L, P)
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(-1))
        if mask is not None:  # a row without tokens sees all positions: any finite numbers will do
            seen = mask | ~mask.any(1, keepdim=True)
            scores = scores.masked_fill(~seen[:, None, None, :], -math.inf)
        if self.mixer == "attention_causal":
            L = x.size(1)
            later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        y = F.dropout(scores.softmax(-1), self.dropout, self.training) @ v
        return (y + v if self.mixer == "attention_dd" else y).transpose(1, 2)

    def scanned(self, x, columns, mask):
        weights = self if self.mixer in FLAT else self.matrix_mixer
        A = -weights.A_log.to(x.dtype).exp()
        skip = weights.D.to(x.dtype).unsqueeze(-1) if hasattr(weights, "D") else 0.0

        def step(raw):
            dt = F.softplus(raw + weights.dt_bias.to(x.dtype)).clamp(*self.dt_limits)
            return dt if mask is None else dt.masked_fill(~mask.unsqueeze(-1), 0)

        def in_groups(t):  # zero at padding: the response to an initial state ends there
            t = t.unflatten(-1, (self.groups, self.N))
            return t if mask is None else t.masked_fill(~mask[:, :, None, None], 0)

        start = getattr(self, "init_states", None)
        start = None if start is None else start.to(x.dtype)

        def both(b_f, c_f, b_b, c_b, dt_f, dt_b):
            """The forward scan, and the backward one over the reversed rows."""
            b_f, c_f, b_b, c_b = map(in_groups, (b_f, c_f, b_b, c_b))
            reverse = [t.flip(1) for t in (x, step(dt_b))], [t.flip(1) for t in (b_b, c_b)]
            forward = scan(x, step(dt_f), A, b_f, c_f, start)
            return forward, scan(*reverse[0], A, *reverse[1], start)

        if self.mixer == "semiseparable":
            b, c, dt = columns
            return scan(x, step(dt), A, in_groups(b), in_groups(c)) + skip * x
        if self.mixer == "quasiseparable_dd":
            b, c, dt_f, dt_b = columns
            columns = b, c, b, c, dt_f, dt_b
        forward, backward = both(*columns)
        if self.mixer in ("hydra", "quasiseparable_dd"):
            delta = F.linear(x.flatten(2), weights.fc_D.weight.to(x.dtype)).unsqueeze(-1) + skip
            return shift(forward) + shift(backward).flip(1) + delta * x
        backward = backward.flip(1)
        if self.mixer == "add":
            return forward + backward + skip * x
        forward, backward = forward + skip * x, backward + skip * x
        return forward * backward if self.mixer == "mult" else torch.cat([forward, backward], 2)


# ---- the encoder -------------------------------------------------------------------------------


class Mlp(nn.Module):
    def __init__(self, width, options):
        super().__init__()
        self.gated = options["kind"] == "glu"
        inner = options["width"]
        wi_bias = options["bias"] and options.get("input_bias", True)
        self.wi = nn.Linear(width, 2 * inner if self.gated else inner, bias=wi_bias)
        self.wo = nn.Linear(inner, width, bias=options["bias"])
        self.dropout = nn.Dropout(options.get("dropout", 0.0))

    def forward(self, x):
        h = self.wi(x)
        if self.gated:
            a, b = h.chunk(2, -1)
            return self.wo(self.dropout(F.gelu(a) * b))
        return self.wo(self.dropout(F.gelu(h)))


class Mixing(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.mixer = Block(options["block"])
        self.norm = nn.LayerNorm(options["block"]["d_model"], options.get("norm_eps", 1e-5))


class Layer(nn.Module):
    def __init__(self, options):
        super().__init__()
        width = options["block"]["d_model"]
        self.pre_norm = options["norm"] == "pre"
        self.dropout = nn.Dropout(options["output_dropout"])
        self.layer = Mixing(options)
        if options["mlp"]["kind"] != "none":
            self.mlp = Mlp(width, options["mlp"])
            self.mlp_norm = nn.LayerNorm(width, options.get("norm_eps", 1e-5))

    def forward(self, x, mask):
        def added(x, norm, f):
            if self.pre_norm:
                return x + self.dropout(f(norm(x)))
            return norm(x + self.dropout(f(x)))

        x = added(x, self.layer.norm, lambda u: self.layer.mixer(u, mask))
        return added(x, self.mlp_norm, self.mlp) if hasattr(self, "mlp") else x


class Embeddings(nn.Module):
    def __init__(self, options, vocab):
        super().__init__()
        width = options["block"]["d_model"]
        self.word_embeddings = nn.Embedding(vocab, width)
        self.token_type_embeddings = nn.Embedding(options["type_vocab"], width)
        if options["positions"] > 0:
            self.position_embeddings = nn.Embedding(options["positions"], width)
        self.LayerNorm = nn.LayerNorm(width, options.get("embedding_norm_eps", 1e-12))
        self.dropout = nn.Dropout(options["dropout"])

    def forward(self, words, types):
        """words (B, L, d_model), types (B, L), in rows whose tokens come first."""
        e = words + self.token_type_embeddings(types)
        if hasattr(self, "position_embeddings"):
            L, known = words.size(1), self.position_embeddings.num_embeddings
            if L > known:
                raise ValueError(
                    f"a sequence of length {L} is longer than the {known} positions of this model;"
                    " truncate it"
                )
            e = e + self.position_embeddings.weight[:L]
        return self.dropout(self.LayerNorm(e))


class Stack(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.layer = nn.ModuleList(Layer(options) for _ in range(options["layers"]))
        if options["norm"] == "pre":
            width = options["block"]["d_model"]
            self.norm = nn.LayerNorm(width, options.get("norm_eps", 1e-5))

    def forward(self, x, mask):
        """-> the last hidden states, and the input and output of every layer"""
        states = [x]
        for layer in self.layer:
            states.append(layer(states[-1], mask))
        return self.norm(states[-1]) if hasattr(self, "norm") else states[-1], states


def check_options(options):
    """ValueError for an encoder that these modules cannot compute."""
    if not options:
        raise ValueError(
            "the config has no section 'model'; load one that `hydramix export-hf` wrote"
        )
    block, mlp = options["block"], options["mlp"]
    if block["mixer"] not in (*TWO_SCANS, *ATTENTION, "semiseparable"):
        raise ValueError(f"this file has no mixer '{block['mixer']}'; use hydramix itself")
    if block["style"] not in ("mamba", "plain") or block["separate"]:
        raise ValueError(f"this file has no block of style '{block['style']}'; use hydramix itself")
    if mlp["kind"] != "none" and mlp["blocks"] != 1:
        raise ValueError("this file has no MLP of several blocks; use hydramix itself")


class HydraMixPreTrainedModel(PreTrainedModel):
    config_class = HydraMixConfig
    base_model_prefix = "bert"
    supports_gradient_checkpointing = False
    _no_split_modules = ["Layer"]

    def get_input_embeddings(self):
        return getattr(self, "bert", self).embeddings.word_embeddings

    def set_input_embeddings(self, value):
        getattr(self, "bert", self).embeddings.word_embeddings = value

    def _init_weights(self, module):
        options = self.config.model
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0.0, options["initial_deviation"])
        elif isinstance(module, nn.Conv1d):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5))
        elif isinstance(module, (nn.LayerNorm, RmsNorm)):
            nn.init.ones_(module.weight)
        elif isinstance(module, (Block, StateSpace)) and hasattr(module, "A_log"):
            mixing = options["block"]["mixer_options"]
            nn.init.zeros_(module.A_log)
            if hasattr(module, "D"):
                nn.init.ones_(module.D)
            if not getattr(module.dt_bias, "_is_hf_initialized", False):
                with torch.no_grad():
                    module.dt_bias.copy_(initial_dt_bias(module.dt_bias.numel(), mixing))
            if hasattr(module, "init_states"):
                nn.init.zeros_(module.init_states)
        if isinstance(getattr(module, "bias", None), nn.Parameter):
            nn.init.zeros_(module.bias)


class Dense(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dense = nn.Linear(width, width)


class HydraMixModel(HydraMixPreTrainedModel):
    """The encoder: last_hidden_state (B, L, hidden_size)."""

    _keys_to_ignore_on_load_unexpected = [r"pooler\.", r"^cls\.", r"^classifier\."]

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config)
        check_options(config.model)
        self.embeddings = Embeddings(config.model, config.vocab_size)
        self.encoder = Stack(config.model)
        if add_pooling_layer:
            self.pooler = Dense(config.hidden_size)
        self.post_init()

    def rows(self, input_ids, attention_mask, token_type_ids, inputs_embeds):
        """Encodes rows whose tokens come first.

        -> last states, mask (B, L) bool or None, order (B, L) of the positions or None, all states
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give input_ids or inputs_embeds, and not both")
        given = input_ids if inputs_embeds is None else inputs_embeds
        shape, mask, order = given.shape[:2], None, None
        if attention_mask is not None:
            if attention_mask.shape != shape:
                raise ValueError(
                    f"attention_mask must be (B, L) = {tuple(shape)}, 1 where a token is;"
                    f" got {tuple(attention_mask.shape)}"
                )
            mask = attention_mask != 0
            order = (~mask).to(torch.int64).sort(dim=1, stable=True).indices
            mask = mask.gather(1, order)
        if inputs_embeds is None:
            ids = input_ids if order is None else input_ids.gather(1, order)
            words = self.embeddings.word_embeddings(ids)
        elif order is None:
            words = inputs_embeds
        else:
            words = inputs_embeds.gather(1, order.unsqueeze(-1).expand_as(inputs_embeds))
        if token_type_ids is None:
            types = torch.zeros(shape, dtype=torch.long, device=given.device)
        else:
            types = token_type_ids if order is None else token_type_ids.gather(1, order)
        last, states = self.encoder(self.embeddings(words, types), mask)
        return last, mask, order, states

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        inputs_embeds=None,
        output_hidden_states=None,
        return_dict=None,
    ):
        last, _, order, states = self.rows(input_ids, attention_mask, token_type_ids, inputs_embeds)
        wanted = output_hidden_states
        if wanted is None:
            wanted = self.config.output_hidden_states
        output = BaseModelOutput(
            last_hidden_state=in_place(last, order),
            hidden_states=tuple(in_place(s, order) for s in states) if wanted else None,
        )
        return as_wanted(output, return_dict)

    def save_pretrained(self, *args, **kwargs):
        # hydramix opens an encoder without a head as one that gives vectors.
        kept = self.config.classifier
        self.config.set_classifier("pairs")
        try:
            return super().save_pretrained(*args, **kwargs)
        finally:
            self.config.classifier = kept


def in_place(rows, order):
    """The inverse of gathering by order: (B, L, C) back to the positions of the input."""
    if order is None:
        return rows
    return torch.zeros_like(rows).scatter(1, order.unsqueeze(-1).expand_as(rows), rows)


def as_wanted(output, return_dict):
    return output.to_tuple() if return_dict is False else output


# ---- heads -------------------------------------------------------------------------------------


class Transform(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        eps = config.model.get("embedding_norm_eps", 1e-12)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps)

    def forward(self, x):
        return self.LayerNorm(F.gelu(self.dense(x)))


class Decoder(nn.Module):
    """Its weight is the table of word embeddings."""

    def __init__(self, vocab):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab))


class Predictions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transform = Transform(config)
        self.decoder = Decoder(config.vocab_size)


def loss_over_tokens(logits, labels):
    """logits (B, L, C), labels (B, L); positions with the label -100 do not count"""
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten().to(logits.device))


class MaskedLMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.predictions = Predictions(config)


class HydraMixForMaskedLM(HydraMixPreTrainedModel):
    """logits (B, L, vocab_size); labels (B, L), -100 where nothing is predicted"""

    _keys_to_ignore_on_load_unexpected = [r"^classifier\.", r"pooler\."]

    def __init__(self, config):
        super().__init__(config)
        config.classifier = None
        self.bert = HydraMixModel(config, add_pooling_layer=config.model.get("pooler", False))
        self.cls = MaskedLMHead(config)
        self.post_init()

    def resize_token_embeddings(self, *args, **kwargs):
        table = super().resize_token_embeddings(*args, **kwargs)
        decoder = self.cls.predictions.decoder
        vocab, before = table.num_embeddings, decoder.bias.numel()
        if vocab != before:
            bias = decoder.bias.detach()
            decoder.bias = nn.Parameter(F.pad(bias, (0, vocab - before)))
        return table

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        inputs_embeds=None,
        labels=None,
        output_hidden_states=None,
        return_dict=None,
    ):
        output = self.bert(
            input_ids, attention_mask, token_type_ids, inputs_embeds, output_hidden_states, True
        )
        head = self.cls.predictions
        table = self.bert.get_input_embeddings().weight
        logits = F.linear(head.transform(output.last_hidden_state), table, head.decoder.bias)
        loss = None if labels is None else loss_over_tokens(logits, labels)
        result = MaskedLMOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return as_wanted(result, return_dict)


class HydraMixForSequenceClassification(HydraMixPreTrainedModel):
    """logits (B, num_labels): classes, a score (num_labels = 1), or several labels of a text"""

    _keys_to_ignore_on_load_unexpected = [r"^cls\."]

    def __init__(self, config):
        super().__init__(config)
        self.kind = config.sequence_kind()
        config.set_classifier(self.kind)
        self.bert = HydraMixModel(config, add_pooling_layer=True)
        self.dropout = nn.Dropout(config.classifier["dropout"])
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def loss(self, logits, labels):
        if self.kind == "score":
            return F.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).view(-1))
        if self.kind == "labels":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels.view(-1))

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        inputs_embeds=None,
        labels=None,
        output_hidden_states=None,
        return_dict=None,
    ):
        last, mask, order, states = self.bert.rows(
            input_ids, attention_mask, token_type_ids, inputs_embeds
        )
        if self.config.classifier["pooling"] == "cls":
            row = last[:, 0]
        elif mask is None:
            row = last.mean(1)
        else:
            row = last.masked_fill(~mask.unsqueeze(-1), 0).sum(1)
            row = row / mask.sum(1, keepdim=True).clamp(min=1)
        row = torch.tanh(self.bert.pooler.dense(row))
        logits = self.classifier(self.dropout(row))
        hidden = tuple(in_place(s, order) for s in states) if output_hidden_states else None
        loss = None if labels is None else self.loss(logits.float(), labels.to(logits.device))
        result = SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden)
        return as_wanted(result, return_dict)


class HydraMixForTokenClassification(HydraMixPreTrainedModel):
    """logits (B, L, num_labels): a tag for every token"""

    _keys_to_ignore_on_load_unexpected = [r"^cls\.", r"pooler\."]

    def __init__(self, config):
        super().__init__(config)
        config.set_classifier("tokens")
        self.bert = HydraMixModel(config)
        self.dropout = nn.Dropout(config.classifier["dropout"])
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        token_type_ids=None,
        inputs_embeds=None,
        labels=None,
        output_hidden_states=None,
        return_dict=None,
    ):
        output = self.bert(
            input_ids, attention_mask, token_type_ids, inputs_embeds, output_hidden_states, True
        )
        logits = self.classifier(self.dropout(output.last_hidden_state))
        loss = None if labels is None else loss_over_tokens(logits, labels)
        result = TokenClassifierOutput(loss=loss, logits=logits, hidden_states=output.hidden_states)
        return as_wanted(result, return_dict)
