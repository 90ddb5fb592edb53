// The `_fused_` optimizers: the update of each parameter is one row. What the rows do not cover (types mixed, tensors
// elsewhere, lists of wrong lengths) is the backing device's own kernel, with its errors.
#include <cmath>
#include <optional>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::IValue;
using Values = c10::SmallVector<ir::Value, 14>;

// A call's arguments, by name.
class FusedCall {
 public:
  FusedCall(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> values) : schema_(schema), values_(values) {}
  const IValue& operator[](std::string_view name) const {
    static const IValue none;
    for (size_t i = 0; i < values_.size(); ++i)
      if (schema_.arguments()[i].name() == name) return values_[i];
    return none;
  }
  c10::ArrayRef<IValue> list(std::string_view name) const {
    const IValue& v = (*this)[name];
    return v.isList() ? v.toListRef() : c10::ArrayRef<IValue>();
  }
  double number(std::string_view name) const { return (*this)[name].toDouble(); }
  bool flag(std::string_view name) const { return (*this)[name].toBool(); }

 private:
  const c10::FunctionSchema& schema_;
  c10::ArrayRef<IValue> values_;
};

struct Update;
struct Optimizer {
  ir::Op row;
  std::vector<const char*> states;  // lists beside parameters and gradients
  // Operands after the states, and attributes.
  void (*numbers)(Update&, size_t i, Values&);
  void (*attributes)(const FusedCall&, ir::Attrs&);
};

// The state of recording one call.
struct Update {
  Update(const FusedCall& c, lazy::Recording& recording, ir::DType computed)
      : call(c), r(recording), type(computed), scale(scalar(call["grad_scale"])), skip(scalar(call["found_inf"])) {}

  const FusedCall& call;
  lazy::Recording& r;
  const ir::DType type;  // of the computation
  const ir::Value scale, skip;

  ir::Value number(double x) { return r.number(x, type); }
  // A tensor of one element, or a number, as a value without dimensions.
  ir::Value scalar(const IValue& v) {
    if (v.isNone()) return {};
    if (const auto x = known(v)) return number(*x);
    return r.convert(r.reshape(r.value(v.toTensor()), ir::Dims{}), type);
  }
  ir::Value step(size_t i) { return scalar(call.list("state_steps")[i]); }
  // Of a number that the host knows.
  static std::optional<double> known(const IValue& v) {
    if (!v.isTensor()) return v.toDouble();
    if (v.toTensor().is_privateuseone()) return {};
    return number_of(v.toTensor()).toDouble();
  }
  // What Adam's step number makes of the rate and of the squares' root (torch/optim/adam.py), once for all that are as
  // far.
  struct Corrections {
    double step = 0;
    ir::Value size = {}, root = {};
  };
  // Without values where the host does not know the step, or the rate.
  Corrections corrections(size_t i) {
    const auto step = known(call.list("state_steps")[i]);
    if (!step) return {};
    if (!corrections_ || corrections_->step != *step) {
      corrections_ = {.step = *step};
      const auto left = [&](const char* beta) { return 1 - std::pow(call.number(beta), *step); };
      if (const auto rate = known(call["lr"])) {
        corrections_->size = number(*rate / left("beta1"));
        corrections_->root = number(std::sqrt(left("beta2")));
      }
    }
    return *corrections_;
  }
  ir::Value rate() { return shared("lr"); }
  ir::Value shared(const char* name) {
    for (auto& [known, v] : shared_)
      if (known == name) return v;
    return shared_.emplace_back(name, scalar(call[name])).second;
  }
  // Of a decay that is none there is no operand.
  ir::Value decay() { return call.number("weight_decay") == 0 ? ir::Value{} : shared("weight_decay"); }
  ir::Value complement(const char* name) {
    for (auto& [known, v] : complements_)
      if (known == name) return v;
    return complements_.emplace_back(name, number(1 - call.number(name))).second;
  }

 private:
  c10::SmallVector<std::pair<const char*, ir::Value>, 8> shared_, complements_;
  std::optional<Corrections> corrections_;
};

void adam_numbers(Update& u, size_t i, Values& in) {
  const Update::Corrections c = u.corrections(i);
  in.append({c.size ? ir::Value{} : u.step(i), u.rate(), u.complement("beta1"), u.complement("beta2"), u.decay(),
             u.shared("eps"), u.skip, c.size, c.root});
}
void sgd_numbers(Update& u, size_t, Values& in) {
  const bool momentum = u.call.number("momentum") != 0;
  const bool started = momentum && !u.call.flag("is_first_step");
  in.append({u.rate(), momentum ? u.shared("momentum") : ir::Value{}, started ? u.complement("dampening") : ir::Value{},
             u.decay(), u.skip});
}
void adagrad_numbers(Update& u, size_t i, Values& in) {
  in.append({u.step(i), u.rate(), u.shared("lr_decay"), u.decay(), u.shared("eps"), u.skip});
}

const Optimizer kAdam{ir::Op::adam_step,
                      {"exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"},
                      adam_numbers,
                      [](const FusedCall& c, ir::Attrs& a) { a.add(0).add(c.flag("maximize")); }};
const Optimizer kAdamW{ir::Op::adam_step,
                       {"exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"},
                       adam_numbers,
                       [](const FusedCall& c, ir::Attrs& a) { a.add(1).add(c.flag("maximize")); }};
const Optimizer kSgd{ir::Op::sgd_step, {"momentum_buffer_list"}, sgd_numbers, [](const FusedCall& c, ir::Attrs& a) {
                       a.add(c.flag("nesterov")).add(c.flag("maximize"));
                     }};
const Optimizer kAdagrad{ir::Op::adagrad_step, {"state_sums"}, adagrad_numbers, [](const FusedCall& c, ir::Attrs& a) {
                           a.add(c.flag("maximize"));
                         }};

bool is_one_number(const IValue& v) {
  if (!v.isTensor()) return true;
  const Tensor& t = v.toTensor();
  return t.defined() && t.numel() == 1 && ((is_ours(t) && c10::isFloatingType(t.scalar_type())) || is_number(t));
}

// The lists whose tensors the step writes. A list of states may be empty: amsgrad's, momentum's.
bool covered(const FusedCall& call, const Optimizer& o, c10::SmallVector<c10::ArrayRef<IValue>, 5>& lists) {
  lists.push_back(call.list("self"));
  lists.push_back(call.list("grads"));
  for (const char* name : o.states) lists.push_back(call.list(name));
  const size_t count = lists[0].size();
  if (count == 0) return false;
  const bool largest = !call["amsgrad"].isNone() && call.flag("amsgrad");
  for (size_t l = 1; l < lists.size(); ++l) {
    const bool wanted = o.row == ir::Op::adam_step ? l < 4 || largest
                                                   : o.row != ir::Op::sgd_step || l < 2 || call.number("momentum") != 0;
    if (lists[l].size() != (wanted ? count : 0)) return false;
  }
  if (!call["state_steps"].isNone()) {
    auto steps = call.list("state_steps");
    if (steps.size() != count || !std::all_of(steps.begin(), steps.end(), is_one_number)) return false;
  }
  for (const char* name : {"lr", "grad_scale", "found_inf"})
    if (!is_one_number(call[name])) return false;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& x = lists[0][i].toTensor();
    if (!is_ours(x) || !c10::isFloatingType(x.scalar_type())) return false;
    for (size_t l = 0; l < lists.size(); ++l) {
      if (lists[l].empty()) continue;
      const Tensor& t = lists[l][i].toTensor();
      if (!is_ours(t) || t.dtype() != x.dtype() || t.sizes() != x.sizes()) return false;
      if (!t.is_contiguous() && !t.is_non_overlapping_and_dense()) return false;
      for (size_t k = 0; k < l; ++k)  // windows of one storage might overlap
        if (!lists[k].empty() && lists[k][i].toTensor().storage().is_alias_of(t.storage())) return false;
    }
  }
  return true;
}

void update(const Optimizer& o, const FusedCall& call, const c10::SmallVector<c10::ArrayRef<IValue>, 5>& lists,
            size_t i, Update& u) {
  lazy::Recording& r = u.r;
  const Tensor& x = lists[0][i].toTensor();
  lazy::Order order;  // the parameter's; states of another are read through a view
  if (!x.is_contiguous()) lazy::memory_order(x.sizes(), x.strides(), order);
  auto write = [&](const Tensor& t, ir::Value v) {
    lazy::Order inverse(order.size(), 0);
    for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = static_cast<int64_t>(d);
    r.write(t, order.empty() ? v : r.permute(v, inverse));
  };
  const bool started = call["is_first_step"].isNone() || !call.flag("is_first_step");
  Values in;
  for (size_t l = 0; l < lists.size(); ++l)
    in.push_back(lists[l].empty() || (l >= 2 && !started) ? ir::Value{} : r.value(lists[l][i].toTensor(), order));
  const ir::Type type = r.type(in[0]);
  if (u.scale) {
    // The gradient is left unscaled, as torch leaves it.
    ir::Value g = r.convert(r.div(r.convert(in[1], u.type), u.scale), type.dtype);
    if (u.skip) g = r.emit(ir::Op::where, {r.emit(ir::Op::eq, {u.skip, r.constant(1, u.type)}), in[1], g});
    write(lists[1][i].toTensor(), in[1] = g);
  }
  o.numbers(u, i, in);
  ir::Attrs attrs;
  o.attributes(call, attrs);
  ir::Type types[4];
  const auto results = static_cast<size_t>(ir::info(o.row).results);
  std::fill_n(types, results, type);
  const ir::Value first = r.emit(o.row, {in.data(), in.size()}, std::move(attrs), {types, results});
  write(x, first);
  for (size_t l = 2; l < lists.size(); ++l)
    if (!lists[l].empty()) write(lists[l][i].toTensor(), first.next(static_cast<uint32_t>(l) - 1));
}

template <const Optimizer& o>
void boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const FusedCall call(schema, torch::jit::last(*stack, schema.arguments().size()));
  c10::SmallVector<c10::ArrayRef<IValue>, 5> lists;
  if (!covered(call, o, lists)) return fallback(op, keys, stack);
  {
    lazy::Recording r;
    std::optional<Update> u;
    for (size_t i = 0; i < lists[0].size(); ++i) {
      const ir::DType type = ir::compute_type(lazy::to_ir(lists[0][i].toTensor().scalar_type()));
      if (!u || u->type != type) u.emplace(call, r, type);
      update(o, call, lists, i, *u);
    }
  }
  torch::jit::drop(*stack, schema.arguments().size());
}

template <const Optimizer& o>
void implement(torch::Library& m, const std::string& name) {
  m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed<o>>());
  m.impl((name + ".tensor_lr").c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed<o>>());
}

// Adds one to each count of steps; of those on the host, which optimizers keep, without the dispatcher.
void count_steps(at::TensorList counts) {
  for (const Tensor& t : counts) {
    if (!t.is_cpu() || t.numel() != 1 || t.requires_grad() ||
        !(t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble)) {
      const_cast<Tensor&>(t).add_(1);
      continue;
    }
    if (t.scalar_type() == at::kFloat)
      *t.mutable_data_ptr<float>() += 1;
    else
      *t.mutable_data_ptr<double>() += 1;
    t.unsafeGetTensorImpl()->bump_version();
  }
}

// As torch's own loops would have written them so many times.
void count_writes(at::TensorList tensors, int64_t times) {
  for (const Tensor& t : tensors)
    for (int64_t i = 0; i < times; ++i) t.unsafeGetTensorImpl()->bump_version();
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def("_count_writes(Tensor[] tensors, int times) -> ()",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, count_writes));
  m.def("_count_steps(Tensor(a!)[] counts) -> ()",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, count_steps));
}

}  // namespace

void register_fused_optimizers(torch::Library& m) {
  implement<kAdam>(m, "_fused_adam_");
  implement<kAdamW>(m, "_fused_adamw_");
  implement<kSgd>(m, "_fused_sgd_");
  implement<kAdagrad>(m, "_fused_adagrad_");
}

}  // namespace lazuli::backend
