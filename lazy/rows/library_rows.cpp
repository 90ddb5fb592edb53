#include "lazy/rows/library_rows.h"

#include <ATen/ops/empty.h>
#include "lazy/support/convert.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lazy {

bool is_library_row(ir::Op op) {
  return op == ir::Op::attention || op == ir::Op::attention_backward || ir::is_recurrent(op);
}

std::vector<at::Tensor> run_library_row(const ir::Node& node, std::vector<at::Tensor> in) {
  const lowering::Libraries& libraries = lowering::cpu_libraries(lowering::Effort::Little);
  std::vector<lowering::Layout> operands, results;
  std::vector<const void*> from;
  for (at::Tensor& t : in) {
    operands.emplace_back();
    from.push_back(nullptr);
    if (!t.defined()) continue;
    const auto layout = [&] {
      return lowering::Layout{to_ir(t.scalar_type()), to_dims(t.sizes()), to_dims(t.strides())};
    };
    if (!libraries.reads(node, layout())) t = t.contiguous();
    operands.back() = layout();
    from.back() = t.const_data_ptr();
  }
  std::vector<at::Tensor> made;
  std::vector<void*> to;
  for (const ir::Type& type : node.types) {
    results.push_back({type.dtype, type.shape, ir::contiguous_strides(type.shape)});
    made.push_back(at::empty(to_ref(type.shape), at::TensorOptions().dtype(to_torch(type.dtype))));
    to.push_back(made.back().mutable_data_ptr());
  }
  const auto call = libraries.make(node, operands, results, {});
  const at::Tensor scratch =
      at::empty({static_cast<int64_t>(call->scratch_bytes())}, at::TensorOptions().dtype(at::kByte));
  call->run(from.data(), to.data(), scratch.mutable_data_ptr());
  return made;
}

}  // namespace lazuli::lazy
