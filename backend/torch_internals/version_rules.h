// What torch's operators do differently from one version to another, where Lazuli has to follow: said once, by the
// version that this library is compiled for. What torch declares differently is in the other files of this folder.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

namespace lazuli::backend {

constexpr bool is_torch_since(int minor) {
  return TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= minor);
}

// Where an operand equals a bound of `clamp`, or both operands of `fmax` and `fmin` are equal: up to 2.13 all of the
// gradient is the operand's. Later versions halve it between tensors, and give a number's side of it to nobody; there
// these operators keep torch's own nodes.
inline constexpr bool kTiesGoToTheOperand = !is_torch_since(14);

// The name of a node in errors: since 2.13 without "Backward", and with the number behind it only if it is not 0.
inline std::string name_in_errors(const std::string& name) {
  constexpr std::string_view kWord = "Backward";
  const size_t end = is_torch_since(13) ? name.rfind(kWord) : std::string::npos;
  if (end == std::string::npos) return name;
  const std::string number = name.substr(end + kWord.size());
  if (number.find_first_not_of("0123456789") != std::string::npos) return name;
  return name.substr(0, end) + (number == "0" ? "" : number);
}

}  // namespace lazuli::backend
