// Graphs in which random numbers are transformed, as normal ones are made of uniform ones.
//
// A program that seeds the generator again may compare what it draws bit by bit, so the transformation is the same code
// each time: a plan's. What is then computed with the numbers is like everything else.
#pragma once
#include <optional>
#include <vector>
#include "ir/portion.h"

namespace lazuli::lazy {

// By node, where its value comes from, elementwise and by views: from random draws and numbers alone, or from numbers
// alone.
struct Origins {
  std::vector<bool> drawn, number;
};
Origins origins_of(const ir::Graph& graph);

struct DrawsApart {
  ir::Portion draws;  // its outputs are inputs of the rest
  ir::Portion rest;
};
// None if whoever computes the drawn nodes gets the same bits.
std::optional<DrawsApart> draws_apart(const ir::Graph& graph, const std::vector<bool>& drawn);

}  // namespace lazuli::lazy
