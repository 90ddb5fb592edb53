#include "lazy/record/derivative_program.h"

#include <deque>
#include <unordered_map>
#include "ir/error.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {
namespace {

using Slot = Fragment::Slot;

std::string key_of(const Fragment& f) {
  std::string key;
  auto put = [&](int64_t n) { key.append(reinterpret_cast<const char*>(&n), sizeof n); };
  auto put_all = [&](const auto& list) {
    put(static_cast<int64_t>(list.size()));
    for (auto n : list) put(static_cast<int64_t>(n));
  };
  put(static_cast<int64_t>(f.slots.size()));
  for (const Slot& s : f.slots) {
    put(static_cast<int64_t>(s.from)), put(s.active), put(s.index), put(static_cast<int64_t>(s.type.dtype)),
        put_all(s.type.shape);
    put(s.bits), put(static_cast<bool>(s.cell)), put(s.source), put_all(s.order);
  }
  for (const auto& s : f.steps)
    put(static_cast<int64_t>(s.op)), put(s.operands), put(s.operand_count), put(s.results), put(s.result_count),
        put(s.attrs), put(s.attr_count);
  put_all(f.operands);
  for (const auto& o : f.outputs) put(o.slot), put_all(o.order), put(o.constant);
  put_all(f.attrs);
  return key;
}

struct Programs {
  Mutex mutex{Rank::Leaf};
  std::unordered_map<std::string, int64_t> numbers;
  std::deque<Program> all;
};
Programs& programs() {
  static auto* p = new Programs;
  return *p;
}

}  // namespace

Program::Program(Fragment f) : fragment_(std::move(f)) {
  for (Slot& s : fragment_.slots) {
    if (s.cell) s.cell = make_uninitialized(s.type);
    if (s.active && s.from == Slot::From::Input && s.index != Fragment::kNone) inputs_ |= uint64_t{1} << s.index;
  }
}

int64_t Program::number_of(const Fragment& f) {
  Programs& p = programs();
  std::lock_guard lock(p.mutex);
  auto [it, fresh] = p.numbers.try_emplace(key_of(f), static_cast<int64_t>(p.all.size()));
  if (fresh) p.all.push_back(Program(f));
  return it->second;
}

const Program& Program::at(int64_t number) {
  Programs& p = programs();
  std::lock_guard lock(p.mutex);
  return p.all.at(static_cast<size_t>(number));
}

std::vector<at::Tensor> Program::values_of(const Fragment& f) {
  std::vector<at::Tensor> out;
  for (const Slot& s : f.slots)
    if (s.cell) out.push_back(make_tensor(s.cell, to_torch(s.type.dtype)));
  return out;
}

const Slot& Program::slot_of(size_t input) const {
  for (const Slot& s : fragment_.slots)
    if (s.active && s.from == Slot::From::Input && s.index == input) return s;
  LAZULI_CHECK(false, "a program was asked for a gradient that it does not have");
}

std::vector<at::Tensor> Program::differentiate(const std::vector<at::Tensor>& gradients, at::TensorList values,
                                               uint64_t needs) const {
  Fragment f = fragment_;
  Recording r;
  size_t next = 0;
  for (Slot& s : f.slots)
    if (s.cell) s.cell = CellRef::share(&r.cell(r.value(values[next++])));
  std::vector<ir::Value> in, out(64);
  for (const at::Tensor& g : gradients) in.push_back(g.defined() ? r.value(g) : ir::Value{});
  lazy::differentiate(r, f, in, needs, out);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!(needs >> i & 1)) continue;
    const Order& order = gradient_order(i);
    const c10::ScalarType type = to_torch(r.dtype(out[i]));
    results.push_back(order.empty() ? r.tensor(out[i], type) : r.tensor(r.permute(out[i], order), type, order));
  }
  return results;
}

}  // namespace lazuli::lazy
