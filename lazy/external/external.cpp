#include "lazy/external/external.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/flip.h>
#include "ir/error.h"
#include "lazy/external/external_calls.h"
#include "lazy/external/external_signature.h"
#include "lazy/external/workers.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/record/recording.h"
#include "lazy/report/observer.h"
#include "lazy/run/sync.h"
#include "lazy/support/config.h"
#include "lazy/support/dimension_names.h"
#include "lazy/support/plain_dispatch.h"
#include "lazy/support/source.h"
#include "lowering/threads/blas_threads.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {
namespace {

using torch::jit::Stack;

// ---- Recording

// Results on the stack, in the schema's form.
void push_results(const ExternalCall& call, const std::vector<at::Tensor>& arguments, std::span<const at::Tensor> fresh,
                  Stack* stack) {
  const auto& schema = call.signature.op.schema();
  size_t next_fresh = 0, next = 0;
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    std::optional<c10::List<at::Tensor>> list;
    if (schema.returns()[i].type()->kind() == c10::TypeKind::ListType) list.emplace();
    for (; next < call.results.size() && call.results[next].return_index == i; ++next) {
      const ExternalResult& r = call.results[next];
      at::Tensor t;
      if (r.kind == ExternalResult::Argument) t = arguments[r.slot];
      if (r.kind == ExternalResult::Fresh) {
        t = fresh[next_fresh++];
        set_view_bits(t, r.geometry);
      }
      if (r.kind == ExternalResult::View) {
        t = make_view(arguments[r.slot], to_ref(r.geometry.sizes), to_ref(r.geometry.strides), r.geometry.offset);
        if (t.scalar_type() != r.geometry.type)
          t.unsafeGetTensorImpl()->set_storage_and_dtype(t.storage(), c10::scalarTypeToTypeMeta(r.geometry.type));
        set_view_bits(t, r.geometry);
      }
      if (list)
        list->push_back(t);
      else
        stack->emplace_back(std::move(t));
    }
    if (list) stack->emplace_back(std::move(*list));
  }
}

// Only those: the caller's stack may hold more (a loop over a batch keeps its own arguments there).
void drop_arguments(const ExternalCall& call, Stack* stack) {
  torch::jit::drop(*stack, call.signature.op.schema().arguments().size());
}

// Adds where a call draws to its operands. Gives its attribute: its number, and how many of them are no memory.
ir::Dims draw(Recording& r, int64_t id, const ExternalCall& call, const Bound& bound, const Stack& stack,
              c10::SmallVector<ir::Value, 4>& operands) {
  const auto& arguments = call.signature.op.schema().arguments();
  const auto place = std::ranges::find(arguments, "drawn", [](const c10::Argument& a) { return a.name(); });
  LAZULI_CHECK(bound.numbers.size() == 2 && place != arguments.end(), "a call draws with `seed`, `offset` and `drawn`");
  const ir::Value seed = r.number(bound.numbers[0], ir::DType::I64),
                  offset = r.number(bound.numbers[1], ir::DType::I64);
  r.note_draw(seed, offset, (stack.end() - (arguments.end() - place))->toInt(), /*is_default=*/true);
  operands.append({seed, offset});
  return {id, 2};
}

void record(int64_t id, const ExternalCallRef& learned, const Bound& bound, Stack* stack) {
  Recording r;
  remember_external_call(id, learned);
  const ExternalCall& call = *learned;
  c10::SmallVector<ir::Value, 4> inputs;
  for (const at::Tensor& s : bound.storages) inputs.push_back(r.storage_value(s));
  c10::SmallVector<ir::Type, 2> types;
  for (uint32_t m : call.mutated) types.push_back(r.type(inputs[m]));
  types.append(call.fresh_types.begin(), call.fresh_types.end());
  c10::SmallVector<at::Tensor, 2> fresh;
  if (!types.empty()) {
    ir::Dims which{id};
    if (!bound.numbers.empty()) which = draw(r, id, call, bound, *stack, inputs);
    ir::Value v = r.emit(ir::Op::external, std::span<const ir::Value>(inputs.data(), inputs.size()),
                         ir::Attrs().add(which), std::span<const ir::Type>(types.data(), types.size()));
    for (uint32_t m : call.mutated) {
      r.rebind_storage(bound.storages[m], v);
      ++v.result;
    }
    for (const ExternalResult& result : call.results) {
      if (result.kind != ExternalResult::Fresh) continue;
      const Geometry& g = result.geometry;
      fresh.push_back(r.tensor(v, g.type, to_ref(g.sizes), to_ref(g.strides)));
      ++v.result;
    }
  }
  drop_arguments(call, stack);
  push_results(call, bound.tensors, {fresh.data(), fresh.size()}, stack);
}

// ---- Running at once

// The memory of `g` inside a storage's buffer.
at::Tensor window(const jit::Buffer& buffer, const Geometry& g) {
  auto* data = static_cast<char*>(buffer.data) + g.offset * static_cast<int64_t>(c10::elementSize(g.type));
  at::Tensor t = tensor_over(data, to_ref(g.sizes), to_ref(g.strides), g.type, buffer.owner);
  set_view_bits(t, g);
  return t;
}

// The memory of a storage that a kernel writes. Some kernels resize their result on the way, and back: borrowed memory
// could not follow.
c10::Storage resizable(const jit::Buffer& buffer) {
  auto* owner = new std::shared_ptr<void>(buffer.owner);
  at::DataPtr data(
      buffer.data, owner, [](void* o) { delete static_cast<std::shared_ptr<void>*>(o); }, backing().device());
  return c10::Storage(c10::Storage::use_byte_size_t(), buffer.bytes, std::move(data),
                      c10::GetAllocator(backing().device().type()), true);
}
at::Tensor window(const c10::Storage& storage, const Geometry& g) {
  at::Tensor t = tensor_in(storage, to_ref(g.sizes), to_ref(g.strides), g.offset, g.type);
  set_view_bits(t, g);
  return t;
}

bool is_written(const ExternalCall& call, const Slot& s) {
  return std::ranges::any_of(call.signature.slots, [&](const Slot& other) {
    return other.same == s.same && writes(call.signature.op.schema(), other.argument);
  });
}

// A result of the eager kernel as a lazuli tensor: an argument, a view of one, or new.
at::Tensor wrap(const at::Tensor& cpu, const std::vector<at::Tensor>& host, const std::vector<at::Tensor>& arguments) {
  if (!cpu.defined()) return {};
  for (size_t i = 0; i < host.size(); ++i)
    if (host[i].is_same(cpu)) return arguments[i];
  if (cpu.layout() != c10::kStrided || cpu.is_nested() || cpu.is_quantized()) return cpu.to(device());
  for (size_t i = 0; i < host.size(); ++i) {
    if (!host[i].storage().is_alias_of(cpu.storage()) || !cpu.numel()) continue;
    int64_t bytes = static_cast<const char*>(cpu.const_data_ptr()) - static_cast<const char*>(host[i].const_data_ptr());
    int64_t base = arguments[i].storage_offset() * static_cast<int64_t>(arguments[i].itemsize());
    at::Tensor view =
        make_view(arguments[i], cpu.sizes(), cpu.strides(), (base + bytes) / static_cast<int64_t>(cpu.itemsize()));
    if (view.dtype() != cpu.dtype()) view.unsafeGetTensorImpl()->set_storage_and_dtype(view.storage(), cpu.dtype());
    set_view_bits(view, geometry_of(cpu));
    copy_names(view, cpu);
    return view;
  }
  const bool shared = cpu.use_count() > 1 || cpu.storage().use_count() > 1;  // the kernel may keep it
  at::Tensor adopted = adopt(shared ? cpu.clone() : cpu);
  copy_names(adopted, cpu);
  return adopted;
}

// The kernel resized or replaced this argument's memory: the storage follows with all of it, for other tensors may show
// more than the argument does now.
void follow(const at::Tensor& argument, const at::Tensor& host) {
  const c10::Storage& memory = host.storage();
  const c10::ScalarType type = memory.nbytes() % host.itemsize() ? c10::kByte : host.scalar_type();
  at::Tensor whole = at::empty({0}, at::TensorOptions().dtype(type).device(backing().device()));
  whole.set_(memory, 0, {static_cast<int64_t>(memory.nbytes() / c10::elementSize(type))}, {1});
  LazyStorage& to = storage_of(argument);
  to.rebind(make_ready(buffer_of(whole), memory_type(geometry_of(whole))));
  to.resize(memory.nbytes());
  argument.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
}

// The host's view of a call's tensors: those of one storage share memory there too, as kernels that write look whether
// what they read overlaps it.
class HostTensors {
 public:
  HostTensors(const ExternalCall& call, const Bound& bound) : storages_(call.signature.storage_bytes.size()) {
    const auto& slots = call.signature.slots;
    for (const Slot& s : slots)
      if (is_written(call, s)) storages_[s.geometry.storage].writes = true;
    for (size_t i = 0; i < slots.size(); ++i) {
      const at::Tensor& t = bound.tensors[i];
      const SyncReason reason = call.is_new ? SyncReason::NewCall : SyncReason::DataDependent;
      tensors.push_back(slots[i].same < i ? tensors[slots[i].same]
                                          : made(t, storages_[slots[i].geometry.storage], reason));
      copy_names(tensors.back(), t);
    }
  }
  // Whether the kernel gave the tensor in this slot other memory, perhaps only on the way.
  bool is_replaced(const Slot& s, const at::Tensor& host) const {
    const Storage& storage = storages_[s.geometry.storage];
    return !storage.memory || host.storage().data() != storage.buffer.data;
  }

  std::vector<at::Tensor> tensors;  // by slot

 private:
  struct Storage {
    bool writes = false;
    jit::Buffer buffer;
    c10::Storage memory;  // of what is written; null: there is none yet
  };
  static at::Tensor made(const at::Tensor& t, Storage& s, SyncReason reason) {
    if (!s.writes) return host_view(t, reason);
    // Nothing is there: it is there to be resized.
    if (t.storage().nbytes() == 0) {
      const auto options = at::TensorOptions().dtype(t.dtype()).device(backing().device());
      if (t.numel() > 0) return at::empty_strided(t.sizes(), t.strides(), options);
      return at::empty({0}, options).as_strided(t.sizes(), t.strides(), t.storage_offset());
    }
    if (!s.memory) {
      s.buffer = materialize(t, reason, true);
      s.memory = resizable(s.buffer);
    }
    return window(s.memory, geometry_of(t));
  }
  std::vector<Storage> storages_;
};

void run_now(int64_t id, const ExternalCall& call, const Bound& bound, Stack* stack) {
  const auto& slots = call.signature.slots;
  const HostTensors tensors(call, bound);
  const std::vector<at::Tensor>& host = tensors.tensors;
  Stack results = call.signature.rebuild(host, {bound.numbers.data(), bound.numbers.size()}, backing().device());
  {
    ExternalTimer timer(call.name);
    std::optional<lowering::OneThread> alone;
    std::optional<Workers> workers;
    if (call.little)
      alone.emplace();
    else
      workers.emplace();
    PlainDispatch guard;
    call.signature.op.callBoxed(results);
  }
  if (call.promised) confirm_external_call(id, call, host, results);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].same < i || !is_written(call, slots[i])) continue;
    if (tensors.is_replaced(slots[i], host[i]) || host[i].sizes() != bound.tensors[i].sizes() ||
        host[i].strides() != bound.tensors[i].strides())
      follow(bound.tensors[i], host[i]);
    set_view_bits(bound.tensors[i], geometry_of(host[i]));
    copy_names(bound.tensors[i], host[i]);
  }
  drop_arguments(call, stack);
  for (c10::IValue& v : results) {
    if (v.isTensor()) {
      const at::Tensor t = std::exchange(v, {}).toTensor();
      stack->emplace_back(wrap(t, host, bound.tensors));
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : std::exchange(v, {}).toTensorVector()) list.push_back(wrap(t, host, bound.tensors));
      stack->emplace_back(std::move(list));
    } else {
      stack->push_back(std::move(v));
    }
  }
}

// Once for each operator and line.
bool is_news(const std::string& text) {
  static auto& mutex = *new Mutex(Rank::Leaf);
  static auto* known = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return known->insert(text).second;
}

}  // namespace

void announce(const c10::OperatorHandle& op, const char* how) {
  const std::string& mode = config().fallback;
  if (mode == "quiet" || is_reference_mode()) return;  // there, none is meant to have one
  std::string where = line_text(current_line());
  std::string text = "lazuli: " + toString(op.operator_name()) + " has no kernel of its own and " + how +
                     (where.empty() ? "" : " (" + where + ")");
  TORCH_CHECK(mode != "error", text, "; LAZULI_FALLBACK=error forbids that");
  if (is_news(text)) TORCH_WARN(text);
}

ExternalTimer::ExternalTimer(std::string op)
    : op_(std::move(op)), where_(line_text(current_line())), start_(now_us()) {}
ExternalTimer::~ExternalTimer() {
  const double end = now_us();
  metrics().external(op_, where_, end - start_);
  if (Observer* o = Observer::if_on()) o->external(op_, where_, start_, end);
}

at::Tensor adopt_as_it_lies(const at::Tensor& cpu) {
  Order order;
  if (!cpu.numel() || (cpu.storage_offset() == 0 && memory_order(cpu.sizes(), cpu.strides(), order))) return adopt(cpu);
  at::Tensor whole = at::empty({0}, cpu.options());
  whole.set_(cpu.storage(), 0, {static_cast<int64_t>(cpu.storage().nbytes() / cpu.itemsize())}, {1});
  at::Tensor view = make_view(adopt(whole), cpu.sizes(), cpu.strides(), cpu.storage_offset());
  set_view_bits(view, geometry_of(cpu));
  return view;
}

at::Tensor adopt(const at::Tensor& cpu) {
  at::Tensor t = cpu;
  Order order;
  if (t.storage_offset() != 0 || !memory_order(t.sizes(), t.strides(), order)) {
    if (is_reference_mode() && t.numel() && t.storage().use_count() == 1) return adopt_as_it_lies(t);
    t = t.clone();
  }
  Geometry g = geometry_of(t);
  at::Tensor adopted =
      make_tensor(make_ready(buffer_of(t), memory_type(g)), g.type, to_ref(g.sizes), to_ref(g.strides));
  set_view_bits(adopted, g);
  return adopted;
}

namespace {

// Kernels that write ask whether what they read lies there.
bool lies_in_what_is_written(const at::Tensor& t, const c10::OperatorHandle& op, const Stack& stack) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& v = stack[stack.size() - arguments.size() + i];
    if (arguments[i].alias_info() && arguments[i].alias_info()->isWrite() && v.isTensor() &&
        v.toTensor().is_alias_of(t))
      return true;
  }
  return false;
}

// Where an operand lies in its storage is part of a call's signature, and of the trace. Operands that are only read
// need not lie where they do.
void settle_operands(const c10::OperatorHandle& op, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  std::optional<Recording> recording;
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& v = (*stack)[stack->size() - arguments.size() + i];
    if (!v.isTensor() || arguments[i].alias_info() || writes(op.schema(), i)) continue;
    const at::Tensor& t = v.toTensor();
    if (!t.defined() || t.device() != device() || t.layout() != at::kStrided || t.is_conj() || t.is_neg()) continue;
    if (fills_storage(t) || lies_in_what_is_written(t, op, *stack)) continue;
    if (!recording) recording.emplace();
    v = recording->settled(t);
  }
}

}  // namespace

void external_call(const c10::OperatorHandle& op, Stack* stack) {
  settle_operands(op, stack);
  const Bound bound = bind_call(op, *stack);
  int64_t id = -1;
  ExternalCallRef learned;
  if (bound.describable)
    std::tie(id, learned) = find_external_call(op, *stack, bound);
  else
    learned = std::make_shared<ExternalCall>(signature_of(op, *stack, bound), false);
  const ExternalCall& call = *learned;
  bool only_views = call.deferrable && call.mutated.empty() && call.fresh_types.empty();
  if (!only_views) announce(op, "runs as an external call");
  if (call.deferrable)
    record(id, learned, bound, stack);
  else
    run_now(id, call, bound, stack);
}

namespace {

// Torch's default type, as it was where the call was made; the user may have changed it since.
class DefaultType {
 public:
  explicit DefaultType(caffe2::TypeMeta type) : before_(c10::get_default_dtype()), differs_(before_ != type) {
    if (differs_) c10::set_default_dtype(type);
  }
  ~DefaultType() {
    if (differs_) c10::set_default_dtype(before_);
  }

 private:
  const caffe2::TypeMeta before_;
  const bool differs_;
};

// Torch has no negative strides: such a dimension is walked from its other end, and flipped.
at::Tensor walked_forward(jit::BufferView v) {
  std::vector<int64_t> flipped;
  for (size_t d = 0; d < v.strides.size(); ++d) {
    if (v.strides[d] >= 0) continue;
    v.offset += (v.type.shape[d] - 1) * v.strides[d];
    v.strides[d] = -v.strides[d];
    flipped.push_back(static_cast<int64_t>(d));
  }
  const at::Tensor t = tensor_over(v);
  return flipped.empty() ? t : at::flip(t, flipped);
}

// A recorded operand is a whole storage, but the plan may offer it as a strided window on the memory of another value
// (a transposed copy that nobody else needed, a slice): the kernel gets its own dense memory then.
bool is_dense(const jit::BufferView& v) {
  if (!v.buffer.data || v.type.numel() == 0) return true;
  bool row_major = v.offset == 0;
  int64_t expected = 1;
  for (size_t d = v.type.shape.size(); d-- > 0; expected *= v.type.shape[d])
    row_major = row_major && (v.type.shape[d] == 1 || v.strides[d] == expected);
  return row_major;
}
jit::Buffer dense(const jit::BufferView& v) {
  if (is_dense(v)) return v.buffer;
  jit::Buffer copy = allocate_buffer(static_cast<size_t>(v.type.bytes()));
  tensor_over({copy, v.type, ir::contiguous_strides(v.type.shape)}).copy_(walked_forward(v));
  return copy;
}

// An operand whose rows lie apart, for kernels that read it so; undefined: it has to be dense. Rows begin at multiples
// of a vector and are in one piece.
at::Tensor rows_apart(const jit::BufferView& v, const Geometry& g) {
  constexpr int64_t kVector = 16;  // bytes
  const int64_t item = static_cast<int64_t>(c10::elementSize(g.type));
  Order order;
  if (is_dense(v) || g.offset != 0 || !memory_order(to_ref(g.sizes), to_ref(g.strides), order)) return {};
  ir::Dims strides = g.strides;
  if (v.type.shape.size() != strides.size() || v.strides.back() != 1) return {};
  const auto dimension = [&](size_t i) { return order.empty() ? i : static_cast<size_t>(order[i]); };
  for (size_t i = 0; i < strides.size(); ++i) {
    if (g.sizes[dimension(i)] != v.type.shape[i]) return {};
    if (i + 1 < strides.size() && v.strides[i] * item % kVector != 0) return {};
    strides[dimension(i)] = v.strides[i];
  }
  char* data = static_cast<char*>(v.buffer.data) + v.offset * item;
  if (reinterpret_cast<uintptr_t>(data) % kVector != 0) return {};
  return tensor_over(data, to_ref(g.sizes), to_ref(strides), g.type, v.buffer.owner);
}

// The one operand of a call that lies so in this storage; undefined: there are others, or it has to be dense.
at::Tensor rows_apart(const ExternalCall& call, size_t storage, const jit::BufferView& v) {
  if (!call.reads_rows_apart) return {};
  const Slot* only = nullptr;
  for (const Slot& s : call.signature.slots) {
    if (s.geometry.storage != storage) continue;
    if (only && s.same != only->same) return {};
    only = &s;
  }
  return only ? rows_apart(v, only->geometry) : at::Tensor();
}

// Whether nobody else has it, or its memory: a kernel of somebody's own may keep what it returns, or return what it was
// given.
bool is_sole(const at::Tensor& t, const std::vector<jit::Buffer>& operands, std::span<const jit::BufferView> views) {
  if (t.use_count() > 1 || t.storage().use_count() > 1) return false;
  const auto* at = static_cast<const char*>(t.const_data_ptr());
  for (size_t k = 0; k < operands.size(); ++k)
    if (const auto* begin = static_cast<const char*>(operands[k].data);
        at >= begin && at < begin + views[k].type.bytes())
      return false;
  return true;
}

// Calls the kernel. By storage: `written` is the memory that stands for it where the kernel writes it, and `apart` its
// one operand where rows lie apart.
Stack call_kernel(const ExternalCall& call, const std::vector<jit::Buffer>& storages,
                  const std::vector<c10::Storage>& written, const std::vector<at::Tensor>& apart,
                  std::span<const int64_t> numbers) {
  try {
    PlainDispatch guard;
    std::optional<DefaultType> type;  // the process's, which only who runs a trace may change
    if (!call.alike) type.emplace(call.signature.default_type);
    const c10::AutoGradMode grad(call.signature.grad_mode);
    std::vector<at::Tensor> host;
    for (const Slot& s : call.signature.slots) {
      if (s.same < host.size()) {
        host.push_back(host[s.same]);
        continue;
      }
      const uint32_t from = s.geometry.storage;
      if (apart[from].defined())
        host.push_back(apart[from]);
      else
        host.push_back(written[from] ? window(written[from], s.geometry) : window(storages[from], s.geometry));
    }
    Stack stack = call.signature.rebuild(host, numbers, backing().device());
    call.signature.op.callBoxed(stack);
    return stack;
  } catch (const c10::OutOfMemoryError& e) {
    throw jit::OutOfMemory(call.name + ": " + e.what_without_backtrace());
  } catch (const c10::Error& e) {
    std::throw_with_nested(std::runtime_error(call.name + ": " + e.what_without_backtrace()));
  }
}

// The tensors in it, which nothing else holds afterwards.
std::vector<at::Tensor> taken_from(Stack stack) {
  std::vector<at::Tensor> out;
  for (c10::IValue& v : stack) {
    if (v.isTensor())
      out.push_back(v.toTensor());
    else
      for (const at::Tensor& t : v.toTensorVector()) out.push_back(t);
  }
  return out;
}

// The memory of a result as it was promised: the kernel's own if it can be had.
jit::Buffer fresh_result(const ExternalCall& call, const Geometry& g, at::Tensor t,
                         const std::vector<jit::Buffer>& operands, std::span<const jit::BufferView> views) {
  TORCH_CHECK(t.sizes() == to_ref(g.sizes) && t.scalar_type() == g.type, "lazuli: ", call.name, " returned ", t.sizes(),
              " where its meta kernel promised ", to_ref(g.sizes));
  const bool is_own = is_sole(t, operands, views) && t.strides() == to_ref(g.strides) && t.storage_offset() == 0 &&
                      t.is_conj() == g.conj && t.is_neg() == g.neg;
  if (is_own) return buffer_of(t);
  at::Tensor dense = at::empty_strided(to_ref(g.sizes), to_ref(g.strides), t.options());
  set_view_bits(dense, g);
  dense.copy_(t);
  return buffer_of(dense);
}

}  // namespace

std::vector<jit::Buffer> run_external(int64_t id, const std::string& line, std::span<const jit::BufferView> inputs,
                                      std::span<const ir::Type> results, bool counted) {
  const ExternalCallRef learned = external_call_at(id);
  const ExternalCall& call = *learned;
  double start = now_us();
  std::optional<lowering::BlasThreads> one;  // for products inside: torch shares out what is around them
  std::optional<lowering::OneThread> alone;
  if (call.alike) one.emplace(1);
  if (call.little) alone.emplace();
  std::vector<jit::Buffer> storages, out;
  std::vector<int64_t> numbers;
  std::vector<at::Tensor> apart;  // by storage
  for (const jit::BufferView& v : inputs) {
    if (v.number) {
      numbers.push_back(*v.number);
      continue;
    }
    apart.push_back(rows_apart(call, storages.size(), v));
    storages.push_back(apart.back().defined() ? v.buffer : dense(v));
  }
  std::vector<c10::Storage> written(storages.size());
  for (uint32_t m : call.mutated) {
    // Not the buffer's own size: memory inside an arena does not know it.
    const auto bytes = static_cast<size_t>(inputs[m].type.bytes());
    jit::Buffer copy = allocate_buffer(bytes);
    backing().copy(copy.data, storages[m].data, bytes);
    written[m] = resizable(copy);
    out.push_back(std::move(copy));
  }
  Stack stack = call_kernel(call, storages, written, apart, numbers);
  for (size_t i = 0; i < call.mutated.size(); ++i) {
    const c10::Storage& memory = written[call.mutated[i]];
    if (memory.data() != out[i].data)
      backing().copy(out[i].data, memory.data(), std::min(out[i].bytes, memory.nbytes()));
  }
  std::vector<at::Tensor> returned = taken_from(std::move(stack));
  LAZULI_CHECK(returned.size() == call.results.size(),
               "an external call returned another number of tensors than its meta kernel");
  for (size_t i = 0; i < returned.size(); ++i)
    if (call.results[i].kind == ExternalResult::Fresh)
      out.push_back(fresh_result(call, call.results[i].geometry, std::move(returned[i]), storages, inputs));
  // Torch's own calls of OpenMP are seen (backend/device/openmp_threads.cpp), those of other libraries are not.
  if (!alone && !call.name.starts_with("aten::")) lowering::openmp_has_worked();
  (void)results;
  if (counted) metrics().external(call.name, line, now_us() - start);
  return out;
}

}  // namespace lazuli::lazy
