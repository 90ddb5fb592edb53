#include "lazy/external/external_signature.h"

#include "lazy/record/recording.h"
#include "lazy/support/dimension_names.h"

namespace lazuli::lazy {
namespace {

// A CPU number among the arguments, which is part of the signature.
bool is_host_number(const at::Tensor& t) { return t.is_cpu() && t.layout() == c10::kStrided && t.dim() == 0; }

class Binder {
 public:
  Binder(const c10::OperatorHandle& op, std::string& key, Bound& bound) : op_(op), key_(key), bound_(bound) {
    key_.clear();
  }

  void run(at::ArrayRef<c10::IValue> arguments) {
    put(reinterpret_cast<uintptr_t>(&op_.schema()));
    put(c10::typeMetaToScalarType(c10::get_default_dtype()));
    put(c10::GradMode::is_enabled());
    for (size_t i = 0; i < arguments.size(); ++i) argument(i, arguments[i]);
    bound_.key = key_;
  }

 private:
  template <class T>
  void put(T v) {
    key_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  template <class List>
  void put_all(const List& list) {
    put(list.size());
    for (auto v : list) put(v);
  }

  void argument(size_t i, const c10::IValue& v) {
    put('#');
    if (v.isNone()) {
      put('n');
    } else if (v.isTensor()) {
      tensor(i, -1, v.toTensor());
    } else if (v.isTensorList()) {
      list(i, v.toTensorVector());
    } else if (v.isOptionalTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const auto& t : v.toOptionalTensorVector()) tensors.push_back(t.value_or(at::Tensor()));
      list(i, tensors);
    } else if (is_run_number(op_.schema(), i)) {
      bound_.numbers.push_back(v.toInt());
    } else {
      constant(v);
    }
  }

  void list(size_t i, const std::vector<at::Tensor>& tensors) {
    put('l');
    put(tensors.size());
    for (size_t e = 0; e < tensors.size(); ++e) tensor(i, static_cast<int32_t>(e), tensors[e]);
  }

  void constant(const c10::IValue& v) {
    if (v.isInt()) return put('i'), put(v.toInt());
    if (v.isDouble()) return put('d'), put(v.toDouble());
    if (v.isBool()) return put('b'), put(v.toBool());
    if (v.isComplexDouble()) return put('c'), put(v.toComplexDouble());
    if (v.isString()) return put('s'), put(v.toStringRef().size()), void(key_ += v.toStringRef());
    if (v.isIntList()) return put('I'), put_all(v.toIntVector());
    if (v.isDoubleList()) return put('D'), put_all(v.toDoubleVector());
    if (v.isBoolList()) {
      put('B');
      for (bool b : v.toBoolList()) put(b);
      return;
    }
    if (v.isDevice()) return put('v'), put(v.toDevice().type()), put(v.toDevice().index());
    bound_.describable = false;
  }

  void tensor(size_t argument, int32_t element, const at::Tensor& t) {
    put(t.defined() ? 't' : 'u');
    if (!t.defined()) return;
    if (!t.is_privateuseone()) return foreign(t, element >= 0);
    if (has_names(t)) bound_.describable = false;
    const uint32_t on = storage(t);
    put(on);
    put(t.scalar_type());
    put_all(t.sizes());
    put_all(t.strides());
    put(t.storage_offset());
    put(t.is_conj());
    put(t.is_neg());
    const auto first = std::ranges::find_if(bound_.tensors, [&](const at::Tensor& other) { return other.is_same(t); });
    const auto same = static_cast<uint32_t>(first - bound_.tensors.begin());
    put(same);
    bound_.places.push_back({static_cast<uint32_t>(argument), element, same, on});
    bound_.tensors.push_back(t);
  }

  void foreign(const at::Tensor& t, bool in_list) {
    if (!t.is_cpu() || t.layout() != c10::kStrided) {
      bound_.describable = false;
      return;
    }
    if (is_host_number(t)) {
      put(t.scalar_type());
      put(t.unsafeGetTensorImpl()->is_wrapped_number());  // of low rank in type promotion
      key_.append(static_cast<const char*>(t.const_data_ptr()), t.itemsize());
      return;
    }
    // Advanced indexing takes its list of indices from the host, as on other devices; nothing else mixes.
    const std::string& name = op_.schema().name();
    bool indexing = in_list && name.find("index") != name.npos;
    TORCH_CHECK(indexing, "Expected all tensors to be on the same device, but found at least two devices, ", device(),
                " and cpu!");
    bound_.describable = false;
  }

  uint32_t storage(const at::Tensor& t) {
    for (uint32_t i = 0; i < bound_.storages.size(); ++i)
      if (bound_.storages[i].storage().unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl()) return i;
    bound_.storages.push_back(t);
    put(storage_of(t).nbytes());
    return static_cast<uint32_t>(bound_.storages.size() - 1);
  }

  const c10::OperatorHandle& op_;
  std::string& key_;
  Bound& bound_;
};

// What a signature keeps of a tensor argument that is not ours.
at::Tensor kept(const at::Tensor& t) {
  if (!t.defined() || !is_host_number(t)) return t;
  at::Tensor copy = t.clone();
  copy.unsafeGetTensorImpl()->set_wrapped_number(t.unsafeGetTensorImpl()->is_wrapped_number());
  return copy;
}

void keep(c10::IValue& v) {
  if (v.isTensor()) {
    v = v.toTensor().defined() && v.toTensor().is_privateuseone() ? c10::IValue() : c10::IValue(kept(v.toTensor()));
  } else if (v.isTensorList() || v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& element : v.toListRef()) {
      const at::Tensor t = element.isNone() ? at::Tensor() : element.toTensor();
      list.push_back(!t.defined() || t.is_privateuseone() ? std::nullopt : std::optional(kept(t)));
    }
    v = std::move(list);
  }
}

}  // namespace

Geometry geometry_of(const at::Tensor& t) {
  return {0, t.scalar_type(), to_dims(t.sizes()), to_dims(t.strides()), t.storage_offset(), t.is_conj(), t.is_neg()};
}

void set_view_bits(const at::Tensor& t, const Geometry& g) {
  if (g.conj != t.is_conj()) t.unsafeGetTensorImpl()->_set_conj(g.conj);
  if (g.neg != t.is_neg()) t.unsafeGetTensorImpl()->_set_neg(g.neg);
}

bool writes(const c10::FunctionSchema& schema, size_t argument) {
  const c10::Argument& a = schema.arguments()[argument];
  if (const auto* alias = a.alias_info()) return alias->isWrite();
  if (a.name() != "running_mean" && a.name() != "running_var") return false;
  const std::string& name = schema.name();
  return name.ends_with("::native_batch_norm") || name.ends_with("::cudnn_batch_norm") ||
         name.ends_with("::miopen_batch_norm") || name.ends_with("::batch_norm_update_stats") ||
         name.ends_with("::batch_norm_gather_stats") || name.ends_with("::batch_norm_gather_stats_with_counts");
}

bool is_run_number(const c10::FunctionSchema& schema, size_t argument) {
  if (!schema.name().starts_with("lazuli::")) return false;
  const std::string& name = schema.arguments()[argument].name();
  return name == "seed" || name == "offset";
}

ir::Type memory_type(const Geometry& g) {
  ir::DType dtype = to_ir(g.type);
  ir::Type type{dtype, {}};
  Order order;
  memory_order(to_ref(g.sizes), to_ref(g.strides), order);
  if (order.empty())
    type.shape = g.sizes;
  else
    for (int64_t d : order) type.shape.push_back(g.sizes[d]);
  if (dtype == ir::DType::Opaque)
    type = {ir::DType::U8, {ir::product(g.sizes) * static_cast<int64_t>(c10::elementSize(g.type))}};
  return type;
}

torch::jit::Stack Signature::rebuild(const std::vector<at::Tensor>& tensors, std::span<const int64_t> numbers,
                                     c10::Device device) const {
  torch::jit::Stack stack = arguments;
  const auto& declared = op.schema().arguments();
  for (size_t i = 0; i < stack.size(); ++i) {
    c10::IValue& v = stack[i];
    if (v.isDevice() && v.toDevice().is_privateuseone()) v = device;
    if (v.isOptionalTensorList() || v.isTensorList()) {
      std::vector<at::Tensor> list;
      for (const auto& t : v.toOptionalTensorVector()) list.push_back(t.value_or(at::Tensor()));
      for (size_t s = 0; s < slots.size(); ++s)
        if (slots[s].argument == i) list[slots[s].element] = tensors[s];
      bool optional = declared[i].type()->isSubtypeOf(*c10::ListType::ofOptionalTensors()) &&
                      !declared[i].type()->isSubtypeOf(*c10::ListType::ofTensors());
      if (optional) {
        c10::List<std::optional<at::Tensor>> out;
        for (at::Tensor& t : list) out.push_back(t.defined() ? std::optional<at::Tensor>(t) : std::nullopt);
        v = std::move(out);
      } else {
        v = c10::List<at::Tensor>(list);
      }
    }
  }
  for (size_t i = 0; i < run_numbers.size(); ++i) stack[run_numbers[i]] = numbers[i];
  for (size_t s = 0; s < slots.size(); ++s)
    if (slots[s].element < 0) stack[slots[s].argument] = tensors[s];
  return stack;
}

Bound bind_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  static thread_local std::string key;
  Bound bound;
  Binder(op, key, bound).run(torch::jit::last(stack, op.schema().arguments().size()));
  return bound;
}

Signature signature_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack, const Bound& bound) {
  const at::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, op.schema().arguments().size());
  Signature s{op, std::string(bound.key), arguments.vec(), {}, {}, {}};
  for (c10::IValue& v : s.arguments) keep(v);
  for (size_t i = 0; i < bound.places.size(); ++i) {
    const Bound::Place& p = bound.places[i];
    s.slots.push_back({p.argument, p.element, p.same, geometry_of(bound.tensors[i])});
    s.slots.back().geometry.storage = p.storage;
  }
  if (!bound.numbers.empty())
    for (size_t i = 0; i < arguments.size(); ++i)
      if (is_run_number(op.schema(), i)) s.run_numbers.push_back(i);
  for (const at::Tensor& t : bound.storages) s.storage_bytes.push_back(static_cast<int64_t>(storage_of(t).nbytes()));
  return s;
}

}  // namespace lazuli::lazy
