// Names of dimensions. Torch has them up to version 2.12; with a later one no tensor has any, and all of this is empty.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#if __has_include(<ATen/NamedTensorUtils.h>)
#include <ATen/NamedTensorUtils.h>
#define LAZULI_NAMES_DIMENSIONS 1
#else
#define LAZULI_NAMES_DIMENSIONS 0
#endif

namespace lazuli::lazy {

#if LAZULI_NAMES_DIMENSIONS

// The dispatch key of a tensor with names, as bits of its key set.
inline uint64_t key_of_names() { return c10::DispatchKeySet(c10::DispatchKey::Named).raw_repr(); }
inline bool has_names(const at::Tensor& t) { return t.has_names(); }
inline void copy_names(const at::Tensor& to, const at::Tensor& from) {
  if (from.has_names()) at::namedinference::propagate_names(to, from);
}

// The names of a result that is written to `to`: taken before it is computed, given after. In between, names are
// ignored. The constructors raise torch's error where names do not match.
class NamesOfResult {
 public:
  NamesOfResult(const at::Tensor& to, const at::Tensor& broadcast_with)
      : to_(to), names_(at::namedinference::compute_broadcast_outnames(to, broadcast_with)) {}
  NamesOfResult(const at::Tensor& to, const at::ITensorListRef& concatenated)
      : to_(to), names_(at::namedinference::compute_cat_outnames(concatenated.materialize())) {}
  template <class F>
  void of(F&& compute) && {
    {
      at::NoNamesGuard ignored;
      compute();
    }
    at::namedinference::propagate_names_if_nonempty(to_, names_);
  }

 private:
  const at::Tensor& to_;
  std::vector<at::Dimname> names_;
};
using NamesIgnored = at::NoNamesGuard;

#else

inline uint64_t key_of_names() { return 0; }
inline bool has_names(const at::Tensor&) { return false; }
inline void copy_names(const at::Tensor&, const at::Tensor&) {}

class NamesOfResult {
 public:
  NamesOfResult(const at::Tensor&, const at::Tensor&) {}
  NamesOfResult(const at::Tensor&, const at::ITensorListRef&) {}
  template <class F>
  void of(F&& compute) && {
    compute();
  }
};
struct NamesIgnored {
  NamesIgnored() {}
};

#endif

}  // namespace lazuli::lazy
