// Recorded as external calls. `lazuli::recurrent` has no meta kernel: only cuDNN knows how large its workspace for the
// derivative is.
#include "backend/ops/cudnn_recurrent.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <vector>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/_cudnn_rnn_backward.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include "backend/record/dispatch.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/record/recording.h"
#include "lazy/record/tape.h"
#include "lazy/support/config.h"
#include "lazy/support/plain_dispatch.h"
#include "lazy/trace/storage.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using at::TensorList;
using std::optional;
using Tensors = std::vector<Tensor>;

// Fewer steps are faster in other ops: a call of cuDNN takes the host longer than a few launches. Packed sequences, and
// with them the other ops, are other ones each time.
constexpr int64_t kFewestSteps = 64, kFewestPackedSteps = 8;

// An operand that may be absent.
optional<Tensor> given(const optional<Tensor>& t) { return t && t->defined() ? t : std::nullopt; }

// ---- Which networks

struct States {
  Tensor hx, cx;  // cx: an LSTM's only
};

struct Sizes {
  int64_t hidden, projected;  // projected: 0 where states are as large as cells
  int64_t tensors;            // parameters of a layer in one direction
};

Sizes sizes_of(const RecurrentNetwork& n, const States& s) {
  const bool projects = s.cx.defined() && s.cx.size(2) != s.hx.size(2);
  return {projects ? s.cx.size(2) : s.hx.size(2), projects ? s.hx.size(2) : 0,
          (n.has_biases ? 4 : 2) + (projects ? 1 : 0)};
}

int64_t directions(const RecurrentNetwork& n) { return n.bidirectional ? 2 : 1; }

// Whether parameters and states have the shapes that these sizes ask for.
bool fits(const RecurrentNetwork& n, const Tensor& input, int64_t batch, const States& s, TensorList parameters) {
  const Sizes z = sizes_of(n, s);
  const int64_t stacked = n.layers * directions(n), state = z.projected ? z.projected : z.hidden;
  if (s.hx.sizes() != IntArrayRef({stacked, batch, state})) return false;
  if (s.cx.defined() && s.cx.sizes() != IntArrayRef({stacked, batch, z.hidden})) return false;
  if (static_cast<int64_t>(parameters.size()) != stacked * z.tensors) return false;
  const int64_t gates = (n.cell == RecurrentCell::Lstm ? 4 : n.cell == RecurrentCell::Gru ? 3 : 1) * z.hidden;
  for (int64_t i = 0; i < stacked; ++i) {
    const TensorList own = parameters.slice(static_cast<size_t>(i * z.tensors), static_cast<size_t>(z.tensors));
    const int64_t features = i < directions(n) ? input.size(-1) : state * directions(n);
    if (own[0].sizes() != IntArrayRef({gates, features}) || own[1].sizes() != IntArrayRef({gates, state})) return false;
    if (n.has_biases && (own[2].sizes() != IntArrayRef({gates}) || own[3].sizes() != IntArrayRef({gates})))
      return false;
    if (z.projected && own.back().sizes() != IntArrayRef({z.projected, z.hidden})) return false;
  }
  return true;
}

// ---- Parameters side by side, as cuDNN wants them

struct Layout {
  std::vector<int64_t> begins;  // by parameter, in elements
  int64_t size;
};

// Torch's kernel lays parameters out and makes them views of where they lie: so a call with others of the same sizes
// says where that is. It asks cuDNN for each gate, which takes longer than a short network's steps.
const Layout& layout_of(const RecurrentNetwork& n, const Sizes& z, int64_t features, TensorList parameters) {
  using Key = std::tuple<RecurrentCell, bool, int64_t, bool, int64_t, int64_t, int64_t, at::ScalarType>;
  static std::mutex mutex;
  static auto* known = new std::map<Key, Layout>;
  const Key key{n.cell,   n.has_biases, n.layers,    n.bidirectional,
                features, z.hidden,     z.projected, parameters[0].scalar_type()};
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  const lazy::PlainDispatch guard;
  const auto options = at::TensorOptions().dtype(parameters[0].scalar_type()).device(lazy::backing().device());
  Tensors others;
  for (const Tensor& p : parameters) others.push_back(at::empty(p.sizes(), options));
  const Tensor buffer =
      at::_cudnn_rnn_flatten_weight(others, z.tensors, features, static_cast<int64_t>(n.cell), z.hidden, z.projected,
                                    n.layers, /*batch_first=*/false, n.bidirectional);
  Layout layout{{}, buffer.numel()};
  for (const Tensor& t : others) layout.begins.push_back(t.storage_offset());
  return known->emplace(key, std::move(layout)).first->second;
}

std::vector<std::pair<const void*, int64_t>> places_of(TensorList parameters) {
  std::vector<std::pair<const void*, int64_t>> places;
  for (const Tensor& p : parameters) places.emplace_back(&lazy::storage_of(p), p.storage_offset());
  return places;
}
std::vector<lazy::CellRef> values_of(TensorList parameters) {
  const std::lock_guard lock(lazy::recorder().mutex);
  std::vector<lazy::CellRef> values;
  for (const Tensor& p : parameters) values.push_back(lazy::storage_of(p).cell_ref());
  return values;
}

// What was laid out before, if no parameter was written since.
Tensor known_side_by_side(TensorList parameters, const Layout& layout) {
  const std::lock_guard lock(lazy::recorder().mutex);
  const auto joined = lazy::storage_of(parameters[0]).notes().joined;
  if (!joined || joined->order != &layout || joined->places != places_of(parameters)) return {};
  if (joined->value->state == lazy::Cell::State::Failed) return {};
  for (const Tensor& p : parameters)
    if (lazy::storage_of(p).notes().joined != joined) return {};
  return lazy::make_tensor(joined->value, parameters[0].scalar_type());
}

// `values`: what was laid out. Another thread may have written a parameter meanwhile.
void note_side_by_side(TensorList parameters, const std::vector<lazy::CellRef>& values, const Layout& layout,
                       const Tensor& buffer) {
  const std::lock_guard lock(lazy::recorder().mutex);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (lazy::storage_of(parameters[i]).cell() != values[i].get()) return;
  const auto joined =
      std::make_shared<const lazy::Joined>(places_of(parameters), &layout, lazy::storage_of(buffer).cell_ref());
  for (const Tensor& p : parameters) lazy::storage_of(p).notes().joined = joined;
}

// Between them are zeros: biases that the network does not have.
Tensor lay_out(TensorList parameters, const Layout& layout) {
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return layout.begins[i]; });
  Tensors pieces;
  int64_t end = 0;
  const auto fill_up_to = [&](int64_t begin) {
    if (end < begin) pieces.push_back(at::zeros({begin - end}, parameters[0].options()));
  };
  for (size_t i : order) {
    fill_up_to(layout.begins[i]);
    pieces.push_back(parameters[i].detach().reshape({-1}));
    end = layout.begins[i] + parameters[i].numel();
  }
  fill_up_to(layout.size);
  return at::cat(pieces);
}

// On a tape values have no numbers yet. Parameters that lie otherwise than their storages are other numbers.
Tensor side_by_side(TensorList parameters, const Layout& layout) {
  const at::AutoDispatchBelowAutograd no_gradients;
  const auto is_plain = [](const Tensor& p) { return p.is_contiguous() && !p.is_neg(); };
  if (lazy::Tape::current() || !std::ranges::all_of(parameters, is_plain)) return lay_out(parameters, layout);
  if (Tensor known = known_side_by_side(parameters, layout); known.defined()) return known;
  const std::vector<lazy::CellRef> values = values_of(parameters);
  Tensor buffer = lay_out(parameters, layout);
  note_side_by_side(parameters, values, layout, buffer);
  return buffer;
}

// Torch's kernel for it, of layers without dropout.
RecurrentResults layers_at_once(const RecurrentNetwork& n, const Tensor& input, IntArrayRef batch_sizes,
                                const States& s, TensorList parameters) {
  const Sizes z = sizes_of(n, s);
  const auto wants_gradient = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  const bool keeps =
      at::GradMode::is_enabled() && (wants_gradient(input) || wants_gradient(s.hx) || wants_gradient(s.cx) ||
                                     std::ranges::any_of(parameters, wants_gradient));
  const Tensor buffer = side_by_side(parameters, layout_of(n, z, input.size(-1), parameters));
  auto [y, hy, cy, reserve, same] =
      at::_cudnn_rnn(input, parameters, z.tensors, buffer, s.hx, given(s.cx), static_cast<int64_t>(n.cell), z.hidden,
                     z.projected, n.layers, /*batch_first=*/false,
                     /*dropout=*/0.0, keeps, n.bidirectional, batch_sizes, /*dropout_state=*/{});
  return {y, hy, s.cx.defined() ? cy : Tensor()};
}

// Dropout between layers is ours, so that the device's generator draws it.
RecurrentResults layer_by_layer(const RecurrentNetwork& n, Tensor input, IntArrayRef batch_sizes, const States& s,
                                TensorList parameters) {
  const auto count = static_cast<size_t>(directions(n) * sizes_of(n, s).tensors);
  RecurrentNetwork one = n;
  one.layers = 1;
  Tensors hy, cy;
  for (int64_t l = 0; l < n.layers; ++l) {
    const auto own = [&](const Tensor& t) {
      return t.defined() ? t.narrow(0, l * directions(n), directions(n)) : Tensor();
    };
    const RecurrentResults r = layers_at_once(one, input, batch_sizes, {own(s.hx), own(s.cx)},
                                              parameters.slice(static_cast<size_t>(l) * count, count));
    input = l + 1 < n.layers ? at::dropout(r.y, n.dropout, true) : r.y;
    hy.push_back(r.hy);
    if (r.cy.defined()) cy.push_back(r.cy);
  }
  return {input, at::cat(hy, 0), cy.empty() ? Tensor() : at::cat(cy, 0)};
}

// ---- The calls

// What a result is where there is none.
Tensor nothing(const Tensor& like) { return at::empty({0}, like.options()); }

optional<Tensor> dense(const optional<Tensor>& t) { return t ? optional<Tensor>(t->contiguous()) : std::nullopt; }

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor>;   // y, hy, cy, reserve
using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // of x, hx, cx, and all parameters in a row

Forward recurrent(const Tensor& x, TensorList weights, int64_t tensors, const Tensor& buffer, const Tensor& hx,
                  const optional<Tensor>& cx, int64_t cell, int64_t hidden, int64_t projected, int64_t layers,
                  bool train, bool bidirectional, IntArrayRef batch_sizes) {
  auto [y, hy, cy, reserve, same] =
      at::_cudnn_rnn(x, weights, tensors, buffer, hx.contiguous(), dense(cx), cell, hidden, projected, layers, false,
                     0.0, train, bidirectional, batch_sizes, {});
  return {y.contiguous(), hy.contiguous(), cx ? cy.contiguous() : nothing(x), reserve.defined() ? reserve : nothing(x)};
}

// The kernel writes over what the forward has left for it.
Backward recurrent_backward(const Tensor& x, TensorList weights, int64_t tensors, const Tensor& buffer,
                            const Tensor& hx, const optional<Tensor>& cx, const Tensor& y, const optional<Tensor>& gy,
                            const optional<Tensor>& ghy, const optional<Tensor>& gcy, int64_t cell, int64_t hidden,
                            int64_t projected, int64_t layers, bool bidirectional, IntArrayRef batch_sizes,
                            const Tensor& reserve, std::array<bool, 4> wanted) {
  auto [gx, ghx, gcx, gw] = at::_cudnn_rnn_backward(x, weights, tensors, buffer, hx.contiguous(), dense(cx), y, gy, ghy,
                                                    gcy, cell, hidden, projected, layers, false, 0.0, /*train=*/true,
                                                    bidirectional, batch_sizes, {}, reserve.clone(), wanted);
  Tensors flat;
  for (const Tensor& g : gw) flat.push_back(g.reshape({-1}));
  // Some come unasked.
  const auto where = [&](bool is_wanted, const Tensor& t) { return is_wanted ? t.contiguous() : nothing(x); };
  return {where(wanted[0], gx), where(wanted[1], ghx), where(wanted[2] && cx, gcx),
          wanted[3] ? at::cat(flat) : nothing(x)};
}

Backward recurrent_backward_meta(const Tensor& x, TensorList weights, int64_t, const Tensor&, const Tensor& hx,
                                 const optional<Tensor>& cx, const Tensor&, const optional<Tensor>&,
                                 const optional<Tensor>&, const optional<Tensor>&, int64_t, int64_t, int64_t, int64_t,
                                 bool, IntArrayRef, const Tensor&, std::array<bool, 4> wanted) {
  const auto like = [](const Tensor& t, bool is_wanted) {
    return is_wanted ? at::empty(t.sizes(), t.options()) : nothing(t);
  };
  int64_t all = 0;
  for (const Tensor& w : weights) all += w.numel();
  return {like(x, wanted[0]), like(hx, wanted[1]), cx ? like(*cx, wanted[2]) : nothing(x),
          at::empty({wanted[3] ? all : 0}, x.options())};
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def(
      "recurrent(Tensor x, Tensor[] weights, int tensors, Tensor buffer, Tensor hx, Tensor? cx, int cell, int hidden, "
      "int projected, int layers, bool train, bool bidirectional, int[] batch_sizes) -> (Tensor, Tensor, Tensor, "
      "Tensor)");
  m.def(
      "recurrent_backward(Tensor x, Tensor[] weights, int tensors, Tensor buffer, Tensor hx, Tensor? cx, Tensor y, "
      "Tensor? gy, Tensor? ghy, Tensor? gcy, int cell, int hidden, int projected, int layers, bool bidirectional, "
      "int[] batch_sizes, Tensor reserve, bool[4] wanted) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(lazuli, CUDA, m) {
  m.impl("recurrent", recurrent);
  m.impl("recurrent_backward", recurrent_backward);
}
TORCH_LIBRARY_IMPL(lazuli, Meta, m) { m.impl("recurrent_backward", recurrent_backward_meta); }

// ---- Torch's operators for it, whose derivative is torch's. A program may call them in another way than we do:
// that is an external call like any other.

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
Results cudnn_rnn(const Tensor& x, TensorList weights, int64_t tensors, const optional<Tensor>& buffer,
                  const Tensor& hx, const optional<Tensor>& cx, int64_t cell, int64_t hidden, int64_t projected,
                  int64_t layers, bool batch_first, double dropout, bool train, bool bidirectional,
                  IntArrayRef batch_sizes, const optional<Tensor>& dropout_state) {
  if (batch_first || dropout != 0 || given(dropout_state) || !given(buffer))
    return fall_back_tuple<5>("aten::_cudnn_rnn", "", x, weights.vec(), tensors, given(buffer), hx, given(cx), cell,
                              hidden, projected, layers, batch_first, dropout, train, bidirectional, batch_sizes.vec(),
                              given(dropout_state));
  const auto [y, hy, cy, reserve] =
      fall_back_tuple<4>("lazuli::recurrent", "", x, weights.vec(), tensors, *buffer, hx, given(cx), cell, hidden,
                         projected, layers, train, bidirectional, batch_sizes.vec());
  return {y, hy, cy, reserve, *buffer};
}

using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensors>;
Gradients cudnn_rnn_backward(const Tensor& x, TensorList weights, int64_t tensors, const Tensor& buffer,
                             const Tensor& hx, const optional<Tensor>& cx, const Tensor& y, const optional<Tensor>& gy,
                             const optional<Tensor>& ghy, const optional<Tensor>& gcy, int64_t cell, int64_t hidden,
                             int64_t projected, int64_t layers, bool batch_first, double dropout, bool train,
                             bool bidirectional, IntArrayRef batch_sizes, const optional<Tensor>& dropout_state,
                             const Tensor& reserve, std::array<bool, 4> wanted) {
  if (!given(gy) && !given(ghy) && !given(gcy)) return {{}, {}, {}, Tensors(weights.size())};
  if (batch_first || dropout != 0 || !train || given(dropout_state)) {
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_cudnn_rnn_backward", "");
    torch::jit::Stack stack;
    torch::jit::push(stack, x, weights.vec(), tensors, buffer, hx, given(cx), y, given(gy), given(ghy), given(gcy),
                     cell, hidden, projected, layers, batch_first, dropout, train, bidirectional, batch_sizes.vec(),
                     given(dropout_state), reserve, wanted);
    fallback(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
    return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor(), stack[3].toTensorVector()};
  }
  const auto [gx, ghx, gcx, flat] = fall_back_tuple<4>(
      "lazuli::recurrent_backward", "", x, weights.vec(), tensors, buffer, hx, given(cx), y, given(gy), given(ghy),
      given(gcy), cell, hidden, projected, layers, bidirectional, batch_sizes.vec(), reserve, wanted);
  Tensors gw(weights.size());
  int64_t at = 0;
  for (size_t i = 0; wanted[3] && i < weights.size(); at += weights[i++].numel())
    gw[i] = flat.narrow(0, at, weights[i].numel()).view(weights[i].sizes());
  const auto where = [](bool is_wanted, const Tensor& t) { return is_wanted ? t : Tensor(); };
  return {where(wanted[0], gx), where(wanted[1], ghx), where(wanted[2] && given(cx), gcx), gw};
}

}  // namespace

// A mode, such as a tracer, wants to see other operators, or what they would do with other tensors.
bool may_call_cudnn(int64_t steps, bool packed) {
  return !lazy::backing().has_host_kernels && steps >= (packed ? kFewestPackedSteps : kFewestSteps) &&
         at::globalContext().userEnabledCuDNN() && lazy::config().fallback != "error" && !lazy::is_reference_mode() &&
         !c10::impl::dispatch_mode_enabled();
}

std::optional<RecurrentResults> cudnn_recurrent(const RecurrentNetwork& network, const Tensor& input,
                                                IntArrayRef batch_sizes, TensorList hx, TensorList parameters) {
  const size_t states = network.cell == RecurrentCell::Lstm ? 2 : 1;
  if (hx.size() != states || parameters.empty()) return {};
  Tensor x = input;
  Tensors state = hx.vec(), weights = parameters.vec();
  // Torch has no forward derivative of the call.
  const auto is_ours = [](const Tensor& t) {
    return t.is_privateuseone() && t.layout() == at::kStrided && t.has_storage() &&
           t.storage().allocator() == lazy::storage_allocator() && !t.key_set().has(c10::DispatchKey::Python) &&
           !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && !t._fw_grad(/*level=*/0).defined();
  };
  const auto is_state = [&](const Tensor& t) { return is_ours(t) && t.dim() == 3; };
  if (!is_ours(x) || x.numel() == 0 || !std::ranges::all_of(state, is_state) || !std::ranges::all_of(weights, is_ours))
    return {};
  States s{state[0], states == 2 ? state[1] : Tensor()};
  if (!fits(network, x, batch_sizes.empty() ? x.size(1) : batch_sizes[0], s, weights)) return {};
  optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
  if (at::autocast::is_autocast_enabled(c10::kPrivateUse1)) {
    const auto type = at::autocast::get_autocast_dtype(c10::kPrivateUse1);
    const auto cast = [&](Tensor& t) { t = at::autocast::cached_cast(type, t, c10::kPrivateUse1); };
    cast(x);
    std::ranges::for_each(state, cast);
    std::ranges::for_each(weights, cast);
    no_autocast.emplace(c10::DispatchKey::AutocastPrivateUse1);
  }
  constexpr std::array kTypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
  const auto is_like_x = [&](const Tensor& t) { return t.scalar_type() == x.scalar_type(); };
  if (std::ranges::find(kTypes, x.scalar_type()) == kTypes.end() || !std::ranges::all_of(state, is_like_x) ||
      !std::ranges::all_of(weights, is_like_x))
    return {};
  s = {state[0], states == 2 ? state[1] : Tensor()};
  const bool drops = network.train && network.dropout != 0 && network.layers > 1;
  return drops ? layer_by_layer(network, x, batch_sizes, s, weights)
               : layers_at_once(network, x, batch_sizes, s, weights);
}

void register_cudnn_recurrent(torch::Library& m) {
  m.impl("_cudnn_rnn", cudnn_rnn);
  m.impl("_cudnn_rnn_backward", cudnn_rnn_backward);
}

}  // namespace lazuli::backend
