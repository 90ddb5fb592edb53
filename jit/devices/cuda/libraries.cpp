#include "jit/devices/cuda/libraries.h"
#include <list>
#include <mutex>
#include "lowering/libraries/cuda/cublaslt.h"

namespace lazuli::jit::cuda {
namespace {

using lowering::ChannelsLast;
using lowering::Layout;
using lowering::MatmulSettings;
using lowering::PostOp;

class CudaLibraries final : public lowering::Libraries {
 public:
  explicit CudaLibraries(const MatmulSettings& settings) : settings(settings) {}

  bool serves(const ir::Node& node) const override { return takes(node, {}); }
  bool takes(const ir::Node& node, std::span<const PostOp> post_ops) const override {
    if (node.op != ir::Op::matmul) return false;
    const ir::Type& out = node.types[0];
    return lowering::cublaslt_takes(out.dtype, post_ops, {out.dtype, out.shape, ir::contiguous_strides(out.shape)});
  }
  bool reads(const ir::Node& node, const Layout& operand) const override {
    return node.op != ir::Op::matmul || lowering::cublaslt_reads(operand);
  }
  // cuDNN computes in channels-last on tensor cores, and turns what is not, at every call.
  ChannelsLast channels_last(const ir::Node& node) const override {
    if (!ir::info(node.op).images) return ChannelsLast::Never;
    if (!ir::is_contraction(node.op)) return ChannelsLast::Either;
    return ir::is_reduced_floating(node.types[0].dtype) ? ChannelsLast::ImagesAndWeights : ChannelsLast::Never;
  }
  // 16 bytes: what tensor cores' operands are moved by.
  int64_t good_multiple(const ir::Node& node) const override {
    const ir::DType type = node.types[0].dtype;
    const bool tensor_cores = ir::is_reduced_floating(type) || (type == ir::DType::F32 && settings.tf32);
    return tensor_cores ? 16 / ir::item_size(type) : 1;
  }
  std::unique_ptr<lowering::LibraryCall> make(const ir::Node& node, std::span<const Layout> operands,
                                              std::span<const Layout> results,
                                              std::span<const PostOp> post_ops) const override {
    return lowering::make_cublaslt_matmul(operands[0], operands[1], results[0], post_ops, settings);
  }

  const MatmulSettings settings;
};

}  // namespace

const lowering::Libraries& libraries(const MatmulSettings& settings) {
  static std::mutex mutex;
  static auto* known = new std::list<CudaLibraries>;  // outlives every thread
  std::lock_guard lock(mutex);
  for (const CudaLibraries& l : *known)
    if (l.settings == settings) return l;
  return known->emplace_back(settings);
}

}  // namespace lazuli::jit::cuda
