// Pointers that own autograd nodes. Up to torch 2.12 they are shared pointers, and a function of torch's frees a node,
// so that a long graph is not freed by as deep a recursion. From 2.13 on a node counts its owners, and frees itself.
#pragma once
#include <memory>
#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

namespace lazuli::backend {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13

template <class T = torch::autograd::Node>
using NodePointer = std::shared_ptr<T>;

// The first owner of a node made with `new`. The allocator is for what a pointer keeps beside the node.
template <class T, class Allocator = std::allocator<char>>
NodePointer<T> own_node(T* node, const Allocator& allocator = {}) {
  return {node, torch::autograd::deleteNode, allocator};
}
// The same for a node that does not release its variables when it ends.
template <class T>
NodePointer<T> own_node_as_it_is(T* node) {
  return NodePointer<T>(node);
}

#else

template <class T = torch::autograd::Node>
using NodePointer = c10::intrusive_ptr<T>;

template <class T, class Allocator = std::allocator<char>>
NodePointer<T> own_node(T* node, const Allocator& = {}) {
  return NodePointer<T>::unsafe_steal_from_new(node);
}
template <class T>
NodePointer<T> own_node_as_it_is(T* node) {
  return own_node(node);
}

#endif

}  // namespace lazuli::backend
