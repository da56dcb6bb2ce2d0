// SPDX-License-Identifier: Apache-2.0
// A sequence mixer is a matrix: Y^h = M^h f_X(X)^h (Hydra, definition 2.1). The interface follows
// that definition. A mixer declares the columns it needs from the input projection, builds M from
// them (materialize), and multiplies by M with the fastest algorithm that its structure allows
// (mix).
//
// The law, tested for every registered mixer:   mix(x, params) == materialize(params, L) @ x
// Scales belong to the matrix; a residual inside a mixer is an identity added to its diagonal.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/dropout_key.h"
#include "hydramix/finite_check.h"
#include "hydramix/layout.h"
#include "hydramix/options.h"
#include "hydramix/shapes.h"

namespace hydramix {

// Registered mixers whose matrix is lower triangular (MixerInfo::causal), sorted.
std::vector<std::string> causal_mixer_names();

// Options of all mixers. Each family reads the fields of its formula and ignores the others.
struct MixerOptions {
  int64_t qk_dim = 16;
  int64_t d_state = 64;
  int64_t groups = 1;
  int64_t max_length = 512;
  int64_t token_hidden = 0;
  bool learn_initial_states = false;
  double dt_min = 1e-3, dt_max = 1e-1, dt_init_floor = 1e-4;
  double dt_limit_low = 0.0, dt_limit_high = std::numeric_limits<double>::infinity();
  int64_t tile = 64;
  double dropout = 0;
  bool skip = true;
  std::string spectrum = "linear";
  std::string discretisation = "zoh";
  int64_t grid_width = 14;
  int64_t projected_length = 128;
  int64_t kaleidoscope_width = 1, kaleidoscope_expansion = 1;
  std::string core = "semiseparable";
  std::string combine = "quasi";
  bool own_weights = false;
  int64_t order = 2;
  int64_t filter_width = 64, filter_features = 5, filter_layers = 4;
  double filter_frequency = 10, filter_decay = 0.99;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    v("qk_dim", self.qk_dim, Range{1, 65536}, "width d of a head's queries and keys");
    v("d_state", self.d_state, Range{1, 65536}, "state size N of a scan or of a state-space model");
    v("groups", self.groups, Range{1, 65536},
      "groups G of heads that share B and C; divides heads");
    v("max_length", self.max_length, Range{1, 1 << 24},
      "longest sequence of a data-independent mixer; sets the scale of the others");
    v("token_hidden", self.token_hidden, Range{0, 1 << 24},
      "inner width of mlp_mixer's matrix W2 gelu(W1), 0: one free matrix; of mlp_mixer_nonlinear, "
      "0: max_length");
    v("learn_initial_states", self.learn_initial_states,
      "hydra starts its scans in a learned state");
    v("dt_min", self.dt_min, Range{1e-12, 1e12}, "smallest step dt at initialisation");
    v("dt_max", self.dt_max, Range{1e-12, 1e12}, "largest step dt at initialisation");
    v("dt_init_floor", self.dt_init_floor, Range{1e-12, 1e12}, "floor of dt at initialisation");
    v("dt_limit_low", self.dt_limit_low, Range{0.0, inf}, "dt is never below this");
    v("dt_limit_high", self.dt_limit_high, Range{0.0, inf}, "dt is never above this");
    v("tile", self.tile, Range{1, 1 << 20}, "chunk length T of a scan: any value, same result");
    v("dropout", self.dropout, Range{0.0, 0.99},
      "share of attention probabilities dropped in training (attention)");
    v("skip", self.skip, "a causal mixer, and bidirectional, adds a learned diagonal D");
    v("core", self.core, Choices{causal_mixer_names},
      "the causal mixer that bidirectional runs in both directions");
    v("combine", self.combine, Choices{"quasi", "add", "mult", "concat"},
      "how bidirectional joins its two directions; quasi is Hydra's construction");
    v("own_weights", self.own_weights,
      "each direction of bidirectional has core weights of its own; false: one set, as in Hydra");
    v("spectrum", self.spectrum, Choices{"linear", "inverse", "real"},
      "initial poles of a diagonal state-space model (s4d, s4nd)");
    v("discretisation", self.discretisation, Choices{"zoh", "bilinear", "euler"},
      "how a diagonal state-space model becomes a recurrence (s4d, s4nd)");
    v("grid_width", self.grid_width, Range{1, 1 << 20},
      "width of the grid that a sequence fills row by row (s4nd)");
    v("projected_length", self.projected_length, Range{1, 1 << 20},
      "length to which linformer projects keys and values");
    v("kaleidoscope_width", self.kaleidoscope_width, Range{1, 64},
      "number of factors BB* of a kaleidoscope matrix");
    v("kaleidoscope_expansion", self.kaleidoscope_expansion, Range{1, 64},
      "size of these factors, in multiples of kaleidoscope's own; a power of two");
    v("order", self.order, Range{2, 64}, "gates of hyena, with a convolution between any two");
    v("filter_width", self.filter_width, Range{1, 65536},
      "inner width of the network that computes a kernel from the lag (hyena, m2_conv, ckconv, "
      "tnn)");
    v("filter_features", self.filter_features, Range{3, 65535},
      "features of the lag that this network reads (hyena, m2_conv): odd");
    v("filter_layers", self.filter_layers, Range{2, 16},
      "matrices of this network (hyena, m2_conv)");
    v("filter_frequency", self.filter_frequency, Range{1e-6, 1e6},
      "frequency of the sines in this network (hyena, m2_conv, ckconv)");
    v("filter_decay", self.filter_decay, Range{0.0, 1.0},
      "decay of the kernel from one lag to the next (tnn)");
  }
};

// A group of columns that a mixer reads from the block's input projection. Groups that pass the
// convolution come first.
struct Columns {
  std::string name;
  int64_t width;
  bool conv;  // passes the depthwise convolution
  bool silu;  // and then SiLU
};

// The registered metadata of a mixer: a row of the paper's table 1.
struct MixerInfo {
  std::string name;
  std::string matrix_class;
  std::string formula;            // m_ij, in ASCII
  std::string cost;               // of mix(), in the length L
  std::string source;             // the paper that introduced it
  bool sequence_aligned = false;  // definition 2.2: M[:i, :i] is made from the first i tokens
  // Of an aligned causal mixer: M[i:, i:] is made from the tokens from i on, so that the matrix of
  // the reversed sequence, turned back, is aligned as well.
  bool trailing_aligned = true;
  bool extendable = true;  // accepts sequences longer than max_length
  bool causal = false;     // M is lower triangular, and the block's convolution looks back only
  bool row_normalized = false;  // rows are divided by their sum, and aligned up to that factor
  bool dropout = false;         // drops entries of M in training (MixerOptions::dropout)
  bool packed = false;          // has kernels for packed sequences (packed_product)
  bool capturable = true;       // on a GPU no numbers go to the host or come from it
  bool flat_weights = false;    // published weight names have no prefix "matrix_mixer."
  bool linear = true;           // mix() multiplies by a matrix; a baseline may be no matrix
  std::optional<bool> paper_aligned = {};  // the tick of table 1 for the method of this name
  std::string paper_difference = {};       // why sequence_aligned differs from that tick
  std::string choose = {};                 // when to choose it: one sentence
  std::string note = {};                   // where the flags depend on options: one sentence
  // Options of the block that come closest to the published layer, as assignments separated by
  // spaces: "style=plain headdim=2". Empty if the name stands for no published system.
  std::string published = {};
};

// The shape of the rows that matrix() and product() work on (see layout.h), and their arithmetic.
struct Rows {
  int64_t S, L;
  torch::Tensor valid;           // (S, L) bool; undefined when every position holds a token
  torch::TensorOptions options;  // float32 or float64, and the device
  torch::ScalarType given;       // the dtype of x and params before they were widened
  // The key of these S sequences, if product() must drop entries; without sequences otherwise.
  DropoutKey dropout = {};
};

class Mixer : public torch::nn::Module {
 public:
  Mixer(Heads heads, const MixerOptions& options) : heads_(heads), options_(options) {}

  const MixerInfo& info() const;
  // The metadata of a mixer with these options, from what its name is registered with. A class
  // whose metadata depend on its options hides this function.
  static MixerInfo info_with(const MixerInfo& registered, const MixerOptions&) {
    return registered;
  }
  Heads heads() const { return heads_; }

  // ---- inputs and outputs ----

  virtual std::vector<Columns> projection() const { return {}; }
  int64_t projection_width() const;
  // Columns of `params`: those of the projection, and those that derive() adds.
  virtual int64_t params_width() const { return projection_width(); }
  // (B, L, projection_width), x (B, L, H, P) -> params (B, L, params_width). Some matrices also
  // depend on the preprocessed input: Hydra's diagonal is D + fc_D x.
  virtual torch::Tensor derive(const torch::Tensor& projected, const torch::Tensor& x) const;
  // Matrices per head. With two, output head b H + h is matrix b applied to head h of x.
  virtual int64_t branches() const { return 1; }
  // Combines the branches: (B, L, branches H, P) -> (B, L, combined_heads, P).
  virtual torch::Tensor combine(const torch::Tensor& y) const { return y; }
  virtual int64_t combined_heads() const { return branches() * heads_.H; }

  // ---- the law ----

  // x (B, L, H, P), params (B, L, params_width) -> (B, L, branches H, P), zero at padding. float32
  // and float64 are computed as given. bfloat16 is computed in float32 and rounded once, except for
  // products on tensor cores, which multiply bfloat16 and accumulate in float32. A mixer that drops
  // entries (MixerInfo::dropout) needs the key in training mode with dropout > 0; then the law
  // holds for the mean over keys.
  torch::Tensor mix(const torch::Tensor& x, const torch::Tensor& params, const Layout& layout = {},
                    const DropoutKey& dropout = {}) const;
  // -> (B or 1, branches H, L, L): the matrix that mix() applies, computed from its definition,
  // without dropout. Throws UsageError if mix() is no matrix (MixerInfo::linear).
  torch::Tensor materialize(const torch::Tensor& params, int64_t L) const;
  // -> (S or 1, branches H, L', L'): the same for the rows of a layout, zero outside a sequence.
  torch::Tensor materialize(const torch::Tensor& params, int64_t L, const Layout& layout) const;
  // The output for x = 0, in the shape of mix(): the response to a learned initial state. Undefined
  // for mixers without one.
  torch::Tensor initial_response(const torch::Tensor& params, const Layout& layout = {}) const;

 protected:
  // params: (S, L, params_width) in rows.options, zero at padding. Every mixer that is a matrix
  // overrides it (MixerInfo::linear).
  virtual torch::Tensor matrix(const torch::Tensor& params, const Rows& rows) const;
  // x: (S, L, H, P), zero at padding. The default is the dense product.
  virtual torch::Tensor product(const torch::Tensor& x, const torch::Tensor& params,
                                const Rows& rows) const;
  // The same for packed sequences, for mixers that have kernels for them (MixerInfo::packed): x (n,
  // H, P), params (n, params_width) -> (n, branches H, P). Replaces product() on the CPU and on
  // GPUs that have kernels.
  virtual torch::Tensor packed_product(const torch::Tensor& x, const torch::Tensor& params,
                                       const Sequences& sequences) const;
  virtual torch::Tensor response(const torch::Tensor& params, const Rows& rows) const;

  // The functions of another mixer, for one that is made of others.
  static torch::Tensor matrix_of(const Mixer& other, const torch::Tensor& params,
                                 const Rows& rows) {
    return other.matrix(params, rows);
  }
  static torch::Tensor product_of(const Mixer& other, const torch::Tensor& x,
                                  const torch::Tensor& params, const Rows& rows) {
    return other.product(x, params, rows);
  }
  static torch::Tensor packed_product_of(const Mixer& other, const torch::Tensor& x,
                                         const torch::Tensor& params, const Sequences& sequences) {
    return other.packed_product(x, params, sequences);
  }
  static torch::Tensor response_of(const Mixer& other, const torch::Tensor& params,
                                   const Rows& rows) {
    return other.response(params, rows);
  }

  // Rows without padding in the shape of t (B, L, ...), with the dtype that t is computed in.
  Rows arithmetic_of(const torch::Tensor& t) const;
  // A learned weight converted to the dtype of `rows`; throws instead of rounding.
  torch::Tensor weight(const torch::Tensor& w, const Rows& rows) const;
  // Columns [begin, begin + heads * width) of params as (S, L, heads, width).
  static torch::Tensor columns(const torch::Tensor& params, int64_t begin, int64_t heads,
                               int64_t width);

  Heads heads_;
  MixerOptions options_;

 private:
  friend std::shared_ptr<Mixer> make_mixer(const std::string&, Heads, const MixerOptions&);

  // The output of each sequence has the same bits whatever the others are.
  torch::Tensor mix_one_by_one(const torch::Tensor& x, const torch::Tensor& params,
                               const Layout& layout) const;
  torch::Tensor params_rows(const torch::Tensor& params, const Layout& layout,
                            const Rows& rows) const;
  void check_params(const std::string& who, const torch::Tensor& params, int64_t L,
                    const Layout& layout) const;
  Rows rows_of(const torch::Tensor& params, const Layout& layout) const;

  std::shared_ptr<const MixerInfo> info_;
  FiniteCheck finite_;
};

// M (S or 1, branches H, L, L) applied to x (S, L, H, P) -> (S, L, branches H, P). O(L^2).
torch::Tensor dense_apply(const torch::Tensor& M, const torch::Tensor& x);

}  // namespace hydramix
