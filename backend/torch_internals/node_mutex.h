// The lock that torch's nodes take while they run, which protects a leaf's `.grad` among other things. It is protected
// in torch::autograd::Node: a node's own business.
#pragma once
#include <mutex>
#include <torch/csrc/autograd/function.h>

namespace lazuli::backend {

struct NodeMutex : torch::autograd::Node {
  static std::mutex& of(torch::autograd::Node& n) { return n.*(&NodeMutex::mutex_); }
};

}  // namespace lazuli::backend
