// Operators over lists of tensors that belong to no elementwise row: norms, copies, zeros.
#include <numeric>
#include <ATen/ops/linalg_vector_norm.h>
#include "backend/lists/foreach.h"
#include "backend/ops/norm.h"
#include "backend/record/dispatch.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using at::TensorList;

// Torch's own loop, for its errors.
template <class... Args>
torch::jit::Stack loop(const char* name, const char* overload, const Args&... args) {
  torch::jit::Stack stack;
  torch::jit::push(stack, args...);
  torch_loop(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), &stack);
  return stack;
}

// A Recording that can be left while something else records.
class Pausable {
 public:
  lazy::Recording& on() { return recording_ ? *recording_ : recording_.emplace(); }
  void pause() { recording_.reset(); }

 private:
  std::optional<lazy::Recording> recording_;
};

std::vector<Tensor> norms(TensorList list, const c10::Scalar& order, std::optional<c10::ScalarType> type) {
  if (list.empty()) return loop("aten::_foreach_norm", "Scalar", list, order, type).back().toTensorVector();
  std::vector<Tensor> results;
  results.reserve(list.size());
  Pausable recording;
  for (const Tensor& t : list) {
    if (sums_a_norm(t, order, type)) {
      ir::Dims all(static_cast<size_t>(t.dim()), 0);
      std::iota(all.begin(), all.end(), 0);
      lazy::Recording& r = recording.on();
      results.push_back(r.tensor(record_norm(r, t, order.toDouble(), all, false), t.scalar_type()));
    } else {
      recording.pause();
      results.push_back(at::linalg_vector_norm(t, order, at::OptionalIntArrayRef{}, false, type));
    }
  }
  return results;
}

// Takes over the source's value.
bool takes_over(const Tensor& to, const Tensor& from) {
  return is_ours(to) && is_ours(from) && to.dtype() == from.dtype() && to.sizes() == from.sizes() &&
         to.is_contiguous() && from.is_contiguous() && !to.storage().is_alias_of(from.storage());
}

void copy(TensorList self, TensorList source, bool non_blocking) {
  if (self.empty() || self.size() != source.size()) {
    loop("aten::_foreach_copy_", "", self, source, non_blocking);
    return;
  }
  Pausable recording;
  for (size_t i = 0; i < self.size(); ++i) {
    if (takes_over(self[i], source[i])) {
      lazy::Recording& r = recording.on();
      r.write(self[i], r.value(source[i]));
      self[i].unsafeGetTensorImpl()->bump_version();
    } else {
      recording.pause();
      self[i].copy_(source[i], non_blocking);
    }
  }
}

void zero(TensorList self) {
  if (self.empty()) return void(loop("aten::_foreach_zero_", "", self));
  Pausable recording;
  for (const Tensor& t : self) {
    if (is_ours(t)) {
      lazy::Recording& r = recording.on();
      r.write_all(t, r.full(lazy::to_dims(t.sizes()), 0, lazy::to_ir(t.scalar_type())));
      t.unsafeGetTensorImpl()->bump_version();
    } else {
      recording.pause();
      t.zero_();
    }
  }
}

}  // namespace

void register_irregular_foreach(torch::Library& m) {
  m.impl("_foreach_norm.Scalar", norms);
  m.impl("_foreach_copy_", copy);
  m.impl("_foreach_zero_", zero);
}

}  // namespace lazuli::backend
