// Light nodes under Python's compiled autograd, which makes one graph of a whole backward: a node's derivative becomes
// a call of one operator, over the gradients and the values that the node keeps, with the rest as constants. A view's
// derivative is torch's operators, which that graph shows one by one.
#include <torch/library.h>
#include "backend/autograd/light_node.h"
#include "backend/torch_internals/compiled_autograd.h"
#include "lazy/record/derivative_program.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::Tensor;
using autograd::variable_list;
using lazy::Program;

using Gradients = c10::List<std::optional<Tensor>>;

variable_list derivative(const Gradients& gradients, at::TensorList values, int64_t program, int64_t needs) {
  variable_list in;
  for (size_t i = 0; i < gradients.size(); ++i) in.push_back(gradients.get(i).value_or(Tensor()));
  return Program::at(program).differentiate(in, values, static_cast<uint64_t>(needs));
}

variable_list derivative_on_meta(const Gradients&, at::TensorList, int64_t number, int64_t needs) {
  const Program& program = Program::at(number);
  variable_list out;
  for (size_t i = 0; i < 64; ++i) {
    if (!(static_cast<uint64_t>(needs) >> i & 1)) continue;
    const ir::Type& type = program.gradient_type(i);
    const lazy::Order& order = program.gradient_order(i);
    Tensor t =
        at::empty(lazy::to_ref(type.shape), at::TensorOptions().dtype(lazy::to_torch(type.dtype)).device(c10::kMeta));
    out.push_back(order.empty() ? t : t.permute(lazy::to_ref(lazy::inverse_of(order))));
  }
  return out;
}

bool any_defined(const variable_list& gradients) {
  return std::ranges::any_of(gradients, [](const Tensor& g) { return g.defined(); });
}

// What compiled graphs call; `args` as the node packed them.
variable_list call_derivative(const variable_list& gradients, const autograd::ivalue_list& args) {
  const variable_list values = args[0].toTensorVector();
  const int64_t program = args[1].toInt();
  const auto needs = static_cast<uint64_t>(args[2].toInt());
  variable_list out(static_cast<size_t>(args[3].toInt()));
  if (!needs || !any_defined(gradients)) return out;
  Gradients given;
  for (const Tensor& g : gradients) given.push_back(g.defined() ? std::optional(g) : std::nullopt);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("lazuli::_derivative", "")
                             .typed<variable_list(const Gradients&, at::TensorList, int64_t, int64_t)>();
  variable_list results = op.call(given, values, program, args[2].toInt());
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (needs >> i & 1) out[i] = std::move(results[next++]);
  return out;
}

variable_list call_view_derivative(const variable_list& gradients, const autograd::ivalue_list& args) {
  auto dims = [](const c10::IValue& v) { return lazy::to_dims(v.toIntVector()); };
  ViewDerivative view;
  view.form = static_cast<ViewDerivative::Form>(args[0].toInt());
  view.sizes = dims(args[1]), view.numbers = dims(args[2]);
  if (!any_defined(gradients)) return variable_list(view.operands());
  return view.gradients(gradients);
}

c10::IValue packed(const ir::Dims& d) { return std::vector<int64_t>(d.begin(), d.end()); }

void name_functions(autograd::SwapSavedVariables& graph) {
  static std::once_flag named;
  std::call_once(named, [&] {
    const auto integer = at::IntType::get();
    const auto integers = at::ListType::ofInts();
    name_function(graph, "LazuliDerivative", call_derivative, {at::ListType::ofTensors(), integer, integer, integer});
    name_function(graph, "LazuliViewDerivative", call_view_derivative, {integer, integers, integers});
  });
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def("_derivative(Tensor?[] gradients, Tensor[] values, int program, int needs) -> Tensor[]");
  m.impl("_derivative", torch::dispatch(c10::DispatchKey::PrivateUse1, TORCH_FN(derivative)));
  m.impl("_derivative", torch::dispatch(c10::DispatchKey::Meta, TORCH_FN(derivative_on_meta)));
}

}  // namespace

void LightNode::compiled_args(autograd::CompiledNodeArgs& args) const {
  if (const ViewDerivative* view = operation_.view()) {
    args.collect(static_cast<int64_t>(view->form));
    args.collect(std::vector<int64_t>(view->sizes.begin(), view->sizes.end()));
    args.collect(std::vector<int64_t>(view->numbers.begin(), view->numbers.end()));
    return;
  }
  operation_.check();
  const lazy::Fragment fragment = operation_.lift();
  lifted_ = std::make_unique<Lifted>(Lifted{Program::number_of(fragment), 0, Program::values_of(fragment)});
  for (size_t i = 0; i < next_edges_.size(); ++i)
    if (next_edges_[i].is_valid()) lifted_->needs |= uint64_t{1} << i;
  lifted_->needs &= Program::at(lifted_->program).inputs();
  args.collect(lifted_->program);
  args.collect(static_cast<int64_t>(lifted_->needs));
  args.collect(lifted_->values);
}

variable_list LightNode::apply_with_saved(const variable_list& gradients, autograd::SwapSavedVariables& saved) {
  name_functions(saved);
  autograd::ivalue_list args;
  const ViewDerivative* view = operation_.view();
  if (view) {
    args = {static_cast<int64_t>(view->form), packed(view->sizes), packed(view->numbers)};
  } else {
    saved.before(lifted_->values);
    args = {lifted_->values, lifted_->program, static_cast<int64_t>(lifted_->needs),
            static_cast<int64_t>(next_edges_.size())};
  }
  variable_list out =
      call_function(saved, view ? "LazuliViewDerivative" : "LazuliDerivative", gradients, args, next_edges_);
  if (!view) saved.after(lifted_->values);
  return out;
}

}  // namespace lazuli::backend
