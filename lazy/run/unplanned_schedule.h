// What is known of a graph that runs one op at a time (unplanned.h) before it runs.
#pragma once
#include <memory>
#include <vector>
#include "ir/graph.h"
#include "jit/run/executable.h"

namespace lazuli::lazy {

class UnplannedSchedule {
 public:
  static constexpr uint32_t kNever = UINT32_MAX;
  const std::shared_ptr<const ir::Graph> shared;
  const ir::Graph& graph = *shared;
  const uint64_t number = jit::next_executable_number();
  std::vector<uint32_t> last_use;  // by node, of any of its results: the node that reads it last
  std::vector<bool> transposed;    // products of which only the transpose is read
  uint32_t sure_from = kNever;     // what is computed from this node on cannot fail: inputs may be written over
  bool is_shared = false;          // something is worth a second thread
  // Products that are only added to something: by the sum's node the operand, and nodes that hand their factors on to
  // it.
  std::vector<int8_t> product;
  std::vector<bool> factors_only;
  std::vector<bool> grows;  // sums of a product that are only a result: they may write over an input at the end
  // By a sum in 16 bits, the product or convolution that it adds something to, which torch does in one call and rounds
  // once, as eager does a bias; kNever: it is a sum like others.
  std::vector<uint32_t> rounded_once;

  explicit UnplannedSchedule(std::shared_ptr<const ir::Graph> g);

 private:
  void find_uses();
  // By node, how often its results are read, or given as results.
  std::vector<uint32_t> count_uses() const;
  // In float32; float64 is not left to torch.
  void find_products();
  void find_narrow_products();
};

}  // namespace lazuli::lazy
