#include "lazy/external_signature.h"

#include "lazy/recording.h"

namespace lazuli::lazy {
namespace {

class Describer {
 public:
  Describer(const c10::OperatorHandle& op, const torch::jit::Stack& stack, Bound& bound)
      : signature_{op, {}, true, {}, {}, {}}, stack_(stack), bound_(bound) {}

  Signature run() {
    const auto& op = signature_.op;
    put(reinterpret_cast<uintptr_t>(&op.schema()));
    size_t n = op.schema().arguments().size();
    signature_.arguments.assign(stack_.end() - static_cast<ptrdiff_t>(n), stack_.end());
    for (size_t i = 0; i < n; ++i) argument(i, signature_.arguments[i]);
    return std::move(signature_);
  }

 private:
  template <class T>
  void put(T v) {
    signature_.key.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  template <class List>
  void put_all(const List& list) {
    put(list.size());
    for (auto v : list) put(v);
  }

  void argument(size_t i, c10::IValue& v) {
    put('#');
    if (v.isNone()) {
      put('n');
    } else if (v.isTensor()) {
      at::Tensor t = v.toTensor();
      if (tensor(i, -1, t))
        v = c10::IValue();
      else
        v = t;
    } else if (v.isTensorList()) {
      list(i, v, v.toTensorVector());
    } else if (v.isOptionalTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const auto& t : v.toOptionalTensorVector()) tensors.push_back(t.value_or(at::Tensor()));
      list(i, v, tensors);
    } else {
      constant(v);
    }
  }

  void list(size_t i, c10::IValue& v, const std::vector<at::Tensor>& tensors) {
    put('l');
    put(tensors.size());
    c10::List<std::optional<at::Tensor>> kept;
    for (size_t e = 0; e < tensors.size(); ++e) {
      at::Tensor t = tensors[e];
      bool ours = tensor(i, static_cast<int64_t>(e), t);
      kept.push_back(ours || !t.defined() ? std::nullopt : std::optional<at::Tensor>(t));
    }
    v = kept;
  }

  void constant(const c10::IValue& v) {
    if (v.isInt()) return put('i'), put(v.toInt());
    if (v.isDouble()) return put('d'), put(v.toDouble());
    if (v.isBool()) return put('b'), put(v.toBool());
    if (v.isComplexDouble()) return put('c'), put(v.toComplexDouble());
    if (v.isString()) return put('s'), put(v.toStringRef().size()), void(signature_.key += v.toStringRef());
    if (v.isIntList()) return put('I'), put_all(v.toIntVector());
    if (v.isDoubleList()) return put('D'), put_all(v.toDoubleVector());
    if (v.isBoolList()) {
      put('B');
      for (bool b : v.toBoolList()) put(b);
      return;
    }
    if (v.isDevice()) return put('v'), put(v.toDevice().type()), put(v.toDevice().index());
    signature_.describable = false;
  }

  // True when t is ours and goes into a slot; a CPU number becomes part of the signature.
  bool tensor(size_t argument, int64_t element, at::Tensor& t) {
    put(t.defined() ? 't' : 'u');
    if (!t.defined()) return false;
    if (!t.is_privateuseone()) {
      foreign(t, element >= 0);
      return false;
    }
    if (t.has_names()) signature_.describable = false;
    Geometry g = geometry_of(t);
    g.storage = storage(t);
    put(g.storage);
    put(g.type);
    put_all(std::span<const int64_t>(g.sizes));
    put_all(std::span<const int64_t>(g.strides));
    put(g.offset);
    put(g.conj);
    put(g.neg);
    const auto first = std::ranges::find_if(bound_.tensors, [&](const at::Tensor& other) { return other.is_same(t); });
    const auto same = static_cast<size_t>(first - bound_.tensors.begin());
    put(same);
    signature_.slots.push_back({argument, element, same, std::move(g)});
    bound_.tensors.push_back(t);
    return true;
  }

  void foreign(at::Tensor& t, bool in_list) {
    if (!t.is_cpu() || t.layout() != c10::kStrided) {
      signature_.describable = false;
      return;
    }
    if (t.dim() == 0) {
      const bool wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();  // of low rank in type promotion
      t = t.clone();
      t.unsafeGetTensorImpl()->set_wrapped_number(wrapped);
      put(t.scalar_type());
      put(wrapped);
      signature_.key.append(static_cast<const char*>(t.const_data_ptr()), t.itemsize());
      return;
    }
    // Advanced indexing takes its list of indices from the host, as on other devices; nothing else mixes.
    const std::string& name = signature_.op.schema().name();
    bool indexing = in_list && name.find("index") != name.npos;
    TORCH_CHECK(indexing, "Expected all tensors to be on the same device, but found at least two devices, ", device(), " and cpu!");
    signature_.describable = false;
  }

  uint32_t storage(const at::Tensor& t) {
    for (uint32_t i = 0; i < bound_.storages.size(); ++i)
      if (bound_.storages[i].storage().unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl()) return i;
    bound_.storages.push_back(t);
    auto bytes = static_cast<int64_t>(storage_of(t).nbytes());
    signature_.storage_bytes.push_back(bytes);
    put(bytes);
    return static_cast<uint32_t>(bound_.storages.size() - 1);
  }

  Signature signature_;
  const torch::jit::Stack& stack_;
  Bound& bound_;
};

}  // namespace

Geometry geometry_of(const at::Tensor& t) {
  return {0, t.scalar_type(), to_dims(t.sizes()), to_dims(t.strides()), t.storage_offset(), t.is_conj(), t.is_neg()};
}

void set_view_bits(const at::Tensor& t, const Geometry& g) {
  if (g.conj != t.is_conj()) t.unsafeGetTensorImpl()->_set_conj(g.conj);
  if (g.neg != t.is_neg()) t.unsafeGetTensorImpl()->_set_neg(g.neg);
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

torch::jit::Stack Signature::rebuild(const std::vector<at::Tensor>& tensors, c10::Device device) const {
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
  for (size_t s = 0; s < slots.size(); ++s)
    if (slots[s].element < 0) stack[slots[s].argument] = tensors[s];
  return stack;
}

Signature describe(const c10::OperatorHandle& op, const torch::jit::Stack& stack, Bound& bound) {
  return Describer(op, stack, bound).run();
}

}  // namespace lazuli::lazy
