#include "lazy/external/external_calls.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/zeros.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/record/recording.h"
#include "lazy/run/compile.h"
#include "lazy/support/config.h"
#include "lazy/support/mutex.h"
#include "lazy/support/plain_dispatch.h"
#include "lowering/threads/blas_threads.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lazy {
namespace {

using torch::jit::Stack;

struct HashOfKey {
  using is_transparent = void;
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};
struct Calls {
  Mutex mutex{Rank::Leaf};
  std::unordered_map<std::string, int64_t, HashOfKey, std::equal_to<>> by_key;
  std::unordered_map<int64_t, ExternalCallRef> calls;
  int64_t next = 0;
  std::unordered_map<size_t, int> seen;  // how often keys came that are not known, by their hashes

  // Whether this key, and others of the same hash, came at most once before, as far as is remembered. To learn a call
  // takes as long as a few calls; a call and its derivative's, or a loop of two turns, are no reason to expect it ever
  // again.
  bool is_new(std::string_view key) {
    constexpr int kNewTimes = 2;
    constexpr size_t kMost = 1 << 16;
    if (seen.size() >= kMost) seen.clear();
    return ++seen[HashOfKey()(key)] <= kNewTimes;
  }
};
Calls& calls() {
  static auto* c = new Calls;
  return *c;
}

at::Tensor on_storage(const Geometry& g, const at::Tensor& storage_owner, c10::Device device) {
  const auto key = device.is_meta() ? c10::DispatchKey::Meta : backing().dispatch_key();
  auto t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage_owner.storage()), c10::DispatchKeySet(key),
                                                    c10::scalarTypeToTypeMeta(g.type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(to_ref(g.sizes), to_ref(g.strides), g.offset);
  set_view_bits(t, g);
  return t;
}

// None: it has no such argument.
std::optional<double> dropout_of(const Signature& s) {
  const auto& declared = s.op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i].name() == "dropout_p" && s.arguments[i].isDouble()) return s.arguments[i].toDouble();
  return {};
}

// Whether the call draws from the backing device's generator, which must happen in program order. Attention without
// dropout carries the tag and draws nothing.
bool is_random(const Signature& s) {
  if (!s.op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  const auto rate = dropout_of(s);
  return !rate || *rate != 0;
}

// What has none returns what only its numbers say; to ask all the same costs an exception, more than the call.
bool has_meta_kernel(const c10::OperatorHandle& op) {
  using enum c10::DispatchKey;
  return op.hasKernelForDispatchKey(Meta) || op.hasKernelForDispatchKey(CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(CompositeExplicitAutogradNonFunctional) ||
         op.hasKernelForDispatchKey(CompositeImplicitAutograd);
}

bool is_ours(const c10::OperatorHandle& op) { return op.schema().name().starts_with("lazuli::"); }

// Whether only its kernel says what it returns, and of given shapes always the same: an operator of ours without a meta
// kernel (backend/ops/cudnn_recurrent.cpp).
bool is_known_by_kernel(const c10::OperatorHandle& op) { return is_ours(op) && !has_meta_kernel(op); }

bool returns_views(const c10::OperatorHandle& op) {
  return std::ranges::any_of(op.schema().returns(),
                             [](const c10::Argument& a) { return a.alias_info() && !a.alias_info()->isWrite(); });
}

// Whether the shapes that it returns are known to depend on no data, so that its meta kernel need not be asked. Many of
// those are torch's Python, whose first one loads half a second of modules, or two seconds: a program's first steps
// need not wait for them, nor each worker of a loader that stacks its samples. Of its operators with a meta kernel,
// torch tags those whose shapes do depend on data. Others may lack the tag.
bool has_static_shapes(const c10::OperatorHandle& op) {
  if (is_known_by_kernel(op)) return true;
  const std::string& name = op.schema().name();
  if (!name.starts_with("aten::") || !op.hasKernelForDispatchKey(c10::DispatchKey::Meta) || returns_views(op))
    return false;
  if (name == "aten::index") return true;  // without a mask
  return !op.hasTag(at::Tag::dynamic_output_shape) && !op.hasTag(at::Tag::data_dependent_output);
}

// Whether they are known to depend on data, as those of an index that is a mask do.
bool has_shapes_of_data(const Signature& s) {
  static const std::unordered_set<std::string> names = {"aten::nonzero",
                                                        "aten::masked_select",
                                                        "aten::_unique2",
                                                        "aten::unique_dim",
                                                        "aten::unique_consecutive",
                                                        "aten::_pack_padded_sequence",
                                                        "aten::_padded_dense_to_jagged_forward"};
  const auto is_mask = [](const Slot& slot) {
    return slot.argument > 0 && (slot.geometry.type == at::kBool || slot.geometry.type == at::kByte);
  };
  const std::string& name = s.op.schema().name();
  return names.contains(name) || (name == "aten::index" && std::ranges::any_of(s.slots, is_mask));
}

// Whether its meta kernel returns what the kernel does: not oneDNN's recurrent layer's, which promises no workspace.
bool has_right_meta_kernel(const c10::OperatorHandle& op) {
  return !is_known_by_kernel(op) && !op.schema().name().starts_with("aten::mkldnn_rnn_layer");
}

// Whether nobody can tell that it has been called once more. Who writes an operator may count its calls, or print, and
// has written a meta kernel to say what it returns.
bool can_be_rehearsed(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return is_known_by_kernel(op) ||
         std::ranges::any_of(
             std::array<std::string_view, 5>{"aten", "prims", "quantized", "torchvision", "torchaudio"},
             [&](std::string_view of) { return name.starts_with(of) && name.substr(of.size()).starts_with("::"); });
}

// Whether each of its results is computed by one thread in one order, and of operands alone. Products of 16 bits are
// made in one of several ways, by how many threads there are.
bool computes_alike_on_threads(const Signature& s) {
  if (!backing().has_host_kernels || !lowering::BlasThreads::can_be_set()) return false;
  if (s.op.schema().name() != "aten::_scaled_dot_product_flash_attention_for_cpu") return false;
  const c10::ScalarType type = s.slots[0].geometry.type;
  return type == at::kFloat || type == at::kDouble;
}

// Whether a derivative reads on the host which weights attention has dropped: that of the memory-efficient kernel.
bool reads_what_was_dropped(const Signature& s) {
  if (s.op.schema().name() != "lazuli::attention_backward" || dropout_of(s).value_or(0) == 0) return false;
  const auto& declared = s.op.schema().arguments();
  const bool has_bias =
      std::ranges::any_of(s.slots, [&](const Slot& o) { return declared[o.argument].name() == "bias"; });
  return has_bias || s.slots[0].geometry.type == at::kFloat;
}

// Known of these, from their sources. One that waits all the same ends the capture with an error.
bool can_be_captured(const Signature& s) {
  static const std::unordered_set<std::string> names = {"lazuli::attention",
                                                        "lazuli::attention_backward",
                                                        "aten::cat",
                                                        "aten::stack",
                                                        "aten::sort",
                                                        "aten::topk",
                                                        "aten::cumprod",
                                                        "aten::logcumsumexp",
                                                        "aten::grid_sampler_2d",
                                                        "aten::grid_sampler_2d_backward",
                                                        "aten::upsample_bilinear2d",
                                                        "aten::upsample_bilinear2d_backward",
                                                        "aten::upsample_nearest2d",
                                                        "aten::upsample_nearest2d_backward"};
  return names.contains(s.op.schema().name()) && !reads_what_was_dropped(s);
}

int64_t bytes_read(const Signature& s) {
  return std::accumulate(s.storage_bytes.begin(), s.storage_bytes.end(), int64_t{0});
}

// Known of these, from their sources: what they compute for each number read takes long, and threads share it.
bool computes_much(const Signature& s) {
  static const std::unordered_set<std::string> names = {"aten::_cdist_forward",
                                                        "aten::_cdist_backward",
                                                        "aten::_pdist_forward",
                                                        "aten::_pdist_backward",
                                                        "aten::bucketize",
                                                        "aten::_ctc_loss",
                                                        "aten::_ctc_loss_backward",
                                                        "aten::grid_sampler_2d",
                                                        "aten::grid_sampler_2d_backward",
                                                        "aten::grid_sampler_3d",
                                                        "aten::grid_sampler_3d_backward",
                                                        "aten::kthvalue",
                                                        "aten::linalg_matrix_exp",
                                                        "aten::median",
                                                        "aten::mode",
                                                        "aten::nanmedian",
                                                        "aten::searchsorted",
                                                        "aten::sort",
                                                        "aten::topk",
                                                        "aten::upsample_bicubic2d",
                                                        "aten::upsample_bicubic2d_backward"};
  return names.contains(s.op.schema().name());
}

// How many numbers a product of matrices multiplies; nothing of other operators.
std::optional<int64_t> multiplications(const Signature& s) {
  static const std::unordered_set<std::string> products = {"aten::mm", "aten::bmm"},
                                               sums = {"aten::addmm", "aten::baddbmm", "aten::addbmm"};
  const std::string& name = s.op.schema().name();
  const bool is_sum = sums.contains(name);
  if ((!is_sum && !products.contains(name)) || s.slots.size() < 2 + size_t{is_sum}) return {};
  const Geometry &left = s.slots[is_sum].geometry, &right = s.slots[1 + is_sum].geometry;
  if (right.sizes.empty()) return {};
  constexpr int64_t kOfComplex = 4;
  return ir::product(left.sizes) * right.sizes.back() * (c10::isComplexType(left.type) ? kOfComplex : 1);
}

int64_t bytes_returned(const ExternalCall& call) {
  return std::accumulate(call.fresh_types.begin(), call.fresh_types.end(), int64_t{0},
                         [](int64_t sum, const ir::Type& t) { return sum + t.bytes(); });
}

// By the products of matrices, an attention's too, of which we know, and else by what it reads and, where that is
// known, returns: OpenMP's threads and LAPACK's cost more to wake than a few thousand numbers take. Somebody's own
// operator may ask for threads, and in reference mode bits follow from them.
bool is_little(const ExternalCall& call) {
  const Signature& s = call.signature;
  const bool is_attention = call.alike;
  if (!backing().has_host_kernels) return false;
  if (is_attention) {
    const Geometry &queries = s.slots[0].geometry, &keys = s.slots[1].geometry;
    return lowering::is_little(2 * ir::product(queries.sizes) * keys.sizes[2]);
  }
  if (is_reference_mode() || !can_be_rehearsed(s.op)) return false;
  if (const auto products = multiplications(s)) return lowering::is_little(*products);
  const int64_t little = (computes_much(s) ? 16 : 256) << 10;  // bytes
  return bytes_read(s) + bytes_returned(call) <= little;
}

// Whether a call that is new runs at once, as eager would run it: what it returns need not be found out, which costs as
// much as the call or more. Views cost nothing, and need no values.
bool runs_at_once_when_new(const c10::OperatorHandle& op) {
  if (is_known_by_kernel(op)) return true;
  if (!may_run_unplanned() || is_reference_mode()) return false;
  return !returns_views(op);
}

// Whether its kernel asserts what zeros do not keep.
bool asserts_more_than_zeros_keep(const c10::OperatorHandle& op) {
  return backing().asserts_in_kernels &&
         op.schema().name() == "aten::repeat_interleave";  // the sum of its operand is the given size
}

// Whether it returns and writes nothing. Such an operator asserts something, which may not hold for zeros: a GPU then
// ends all work.
bool is_called_for_its_error(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (writes(schema, i)) return false;
  return schema.returns().empty();
}

// Learns what a call returns. Unless that is known to depend on no data, first from torch's meta kernels, which know
// which shapes do; then, since those do not make every check that eager makes and sometimes promise other types or
// strides, from a rehearsal: the eager kernel itself, once per signature, on memory full of zeros. What fails in either
// runs for real, at once, and gives eager's own error at the line that caused it. Operators that are not torch's are
// not rehearsed: the first call runs at once, and confirms what their meta kernels say. Where calls run at once when
// they are new, this is of the third one.
class Analysis {
 public:
  explicit Analysis(ExternalCall& call) : call_(call), signature_(call.signature) {}

  bool run() {
    const lowering::OneThread one;
    if (!call_.describable || is_random(signature_) || has_shapes_of_data(signature_)) return false;
    if (is_called_for_its_error(signature_.op)) return false;
    constexpr int64_t kRehearsed = int64_t{64} << 20;  // bytes; beyond, a second run costs more than it finds
    // In reference mode strides decide what kernels do next.
    bool rehearsed =
        bytes_read(signature_) <= kRehearsed || is_reference_mode() || !has_right_meta_kernel(signature_.op);
    rehearsed = rehearsed && can_be_rehearsed(signature_.op);
    if (rehearsed && has_static_shapes(signature_.op)) return learn(backing().device());
    if (!has_meta_kernel(signature_.op) || !learn(c10::Device(c10::kMeta))) return false;
    const bool only_views = call_.mutated.empty() && call_.fresh_types.empty();
    return only_views || !rehearsed || asserts_more_than_zeros_keep(signature_.op) || learn(backing().device());
  }

 private:
  bool learn(c10::Device device) {
    device_ = device;
    bases_.clear(), slots_.clear();
    call_.results.clear(), call_.mutated.clear(), call_.fresh_types.clear();
    for (int64_t bytes : signature_.storage_bytes)
      bases_.push_back(device.is_meta() ? at::detail::empty_meta({bytes}, c10::ScalarType::Byte)
                                        : at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(device)));
    for (const Slot& s : signature_.slots) {
      if (s.same < slots_.size()) {
        slots_.push_back(slots_[s.same]);
        continue;
      }
      slots_.push_back(on_storage(s.geometry, bases_[s.geometry.storage], device));
      // LAPACK counts rows from one, and looks for row zero outside of the matrix.
      const std::string& name = signature_.op.schema().arguments()[s.argument].name();
      if (name.find("pivots") != name.npos) slots_.back().fill_(1);
    }
    const std::vector<int64_t> numbers(signature_.run_numbers.size(), 0);
    Stack stack = signature_.rebuild(slots_, numbers, device);
    try {
      PlainDispatch guard;
      signature_.op.callBoxed(stack);
    } catch (const std::exception&) {
      return false;
    }
    for (size_t i = 0; i < slots_.size(); ++i)
      if (!(geometry_of(slots_[i]) == without_storage(signature_.slots[i].geometry))) return false;  // it was resized
    return returns(stack) && mutations();
  }

  static Geometry without_storage(Geometry g) {
    g.storage = 0;
    return g;
  }

  bool returns(const Stack& stack) {
    const auto& schema = signature_.op.schema();
    for (size_t i = 0; i < stack.size(); ++i) {
      if (stack[i].isTensor()) {
        if (!add(stack[i].toTensor(), schema.returns()[i], i, false)) return false;
      } else if (stack[i].isTensorList()) {
        for (const at::Tensor& t : stack[i].toTensorVector())
          if (!add(t, schema.returns()[i], i, true)) return false;
      } else {
        return false;  // a number: it depends on data
      }
    }
    return true;
  }

  bool add(const at::Tensor& t, const c10::Argument& declared, size_t index, bool in_list) {
    ExternalResult r{ExternalResult::Absent, in_list, index};
    if (t.defined()) {
      if (t.layout() != c10::kStrided || t.is_nested() || t.is_quantized()) return false;
      if (t.device().type() != device_.type()) return false;  // bookkeeping that the kernel keeps on the host
      r.geometry = geometry_of(t);
      auto slot = std::ranges::find_if(slots_, [&](const at::Tensor& s) { return s.is_same(t); });
      auto alias = std::ranges::find_if(slots_, [&](const at::Tensor& s) { return s.is_alias_of(t); });
      if (slot != slots_.end()) {
        r.kind = ExternalResult::Argument;
        r.slot = static_cast<size_t>(slot - slots_.begin());
      } else if (alias != slots_.end()) {
        r.kind = ExternalResult::View;
        r.slot = static_cast<size_t>(alias - slots_.begin());
      } else {
        if (declared.alias_info()) return false;
        Order order;
        if (t.storage_offset() != 0 || !memory_order(t.sizes(), t.strides(), order)) return false;
        r.kind = ExternalResult::Fresh;
        call_.fresh_types.push_back(memory_type(r.geometry));
      }
    }
    call_.results.push_back(std::move(r));
    return true;
  }

  bool mutations() {
    for (const Slot& s : signature_.slots) {
      if (!writes(signature_.op.schema(), s.argument)) continue;
      if (std::ranges::find(call_.mutated, s.geometry.storage) == call_.mutated.end())
        call_.mutated.push_back(s.geometry.storage);
    }
    return true;
  }

  ExternalCall& call_;
  const Signature& signature_;
  c10::Device device_{c10::kMeta};
  std::vector<at::Tensor> bases_, slots_;
};

// None: something else is among them.
std::optional<std::vector<at::Tensor>> tensors_in(const Stack& stack) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& v : stack)
    if (v.isTensor())
      found.push_back(v.toTensor());
    else if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) found.push_back(t);
    else
      return {};
  return found;
}

bool is_resized(const at::Tensor& t, const Geometry& before) {
  return t.sizes() != to_ref(before.sizes) || t.strides() != to_ref(before.strides);
}

// Notes the results' own strides. Who returns nothing and writes nothing is called for something else.
bool is_confirmed(ExternalCall& call, std::span<const at::Tensor> operands, const Stack& stack) {
  const auto found = tensors_in(stack);
  if (!found || found->size() != call.results.size() || (found->empty() && call.mutated.empty())) return false;
  const auto& results = *found;
  for (size_t i = 0; i < operands.size(); ++i)
    if (is_resized(operands[i], call.signature.slots[i].geometry)) return false;
  call.fresh_types.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& t = results[i];
    ExternalResult& r = call.results[i];
    if (r.kind == ExternalResult::Absent && !t.defined()) continue;
    if (r.kind == ExternalResult::Argument && t.is_same(operands[r.slot])) continue;
    if (r.kind != ExternalResult::Fresh || !t.defined() || t.layout() != c10::kStrided || t.is_nested() ||
        t.is_quantized() || t.device().type() != backing().device().type() || t.sizes() != to_ref(r.geometry.sizes) ||
        t.scalar_type() != r.geometry.type)
      return false;
    const auto shares = [&](const at::Tensor& other) { return other.defined() && other.is_alias_of(t); };
    if (std::ranges::any_of(operands, shares) ||
        std::any_of(results.begin(), results.begin() + static_cast<ptrdiff_t>(i), shares))
      return false;
    Order order;
    if (t.storage_offset() != 0 || !memory_order(t.sizes(), t.strides(), order)) return false;
    r.geometry = geometry_of(t);
    call.fresh_types.push_back(memory_type(r.geometry));
  }
  return true;
}

// These are in no trace: what is forgotten of them is learned again.
void forget_undeferrable(Calls& c) {
  std::erase_if(c.by_key, [&](const auto& entry) { return !c.calls.at(entry.second)->deferrable; });
  std::erase_if(c.calls, [](const auto& entry) { return !entry.second->deferrable; });
}

}  // namespace

ExternalCallRef external_call_at(int64_t id) {
  std::lock_guard lock(calls().mutex);
  return calls().calls.at(id);
}

std::pair<int64_t, ExternalCallRef> find_external_call(const c10::OperatorHandle& op, const Stack& stack,
                                                       const Bound& bound) {
  Calls& c = calls();
  bool is_new = false;
  {
    std::lock_guard lock(c.mutex);
    if (auto it = c.by_key.find(bound.key); it != c.by_key.end()) return {it->second, c.calls.at(it->second)};
    is_new = runs_at_once_when_new(op) && c.is_new(bound.key);
  }
  auto call = std::make_shared<ExternalCall>(signature_of(op, stack, bound), true);
  if (is_new) {
    call->is_new = true;
    call->little = is_little(*call);
    return {-1, call};
  }
  const bool is_known = Analysis(*call).run(), is_trusted = can_be_rehearsed(op) || is_ours(op);
  call->deferrable = is_known && is_trusted;
  call->promised = is_known && !is_trusted;
  call->alike = computes_alike_on_threads(call->signature);
  call->little = is_little(*call);
  call->reads_rows_apart = op.schema().name().starts_with("lazuli::attention");
  call->can_be_captured = can_be_captured(call->signature);
  std::lock_guard lock(c.mutex);
  if (c.calls.size() >= 4 * static_cast<size_t>(config().max_traces)) forget_undeferrable(c);
  auto [it, fresh] = c.by_key.try_emplace(call->signature.key, c.next);
  if (fresh) c.calls[c.next++] = std::move(call);
  return {it->second, c.calls.at(it->second)};
}

void confirm_external_call(int64_t id, const ExternalCall& call, std::span<const at::Tensor> operands,
                           const Stack& results) {
  auto confirmed = std::make_shared<ExternalCall>(call);
  confirmed->promised = false;
  confirmed->deferrable = is_confirmed(*confirmed, operands, results);
  std::lock_guard lock(calls().mutex);
  const auto it = calls().calls.find(id);
  // Else another thread was first.
  if (it != calls().calls.end() && it->second->promised) it->second = std::move(confirmed);
}

void remember_external_call(int64_t id, const ExternalCallRef& call) {
  std::lock_guard lock(calls().mutex);
  if (calls().calls.contains(id)) return;
  calls().calls.emplace(id, call);
  calls().by_key.try_emplace(call->signature.key, id);
}

std::string external_name(int64_t id) { return external_call_at(id)->name; }

size_t external_call_count() {
  std::lock_guard lock(calls().mutex);
  return calls().calls.size();
}

void keep_external_calls(const std::unordered_set<int64_t>& kept) {
  std::lock_guard lock(calls().mutex);
  std::erase_if(calls().calls, [&](const auto& entry) { return !kept.contains(entry.first); });
  std::erase_if(calls().by_key, [&](const auto& entry) { return !kept.contains(entry.second); });
}

}  // namespace lazuli::lazy
