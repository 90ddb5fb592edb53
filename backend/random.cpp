// Random numbers and dropout, drawn inside fused kernels from a counter-based generator.
#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include "backend/registration.h"
#include "backend/dispatch.h"
#include "backend/generator.h"
#include "backend/operands.h"

namespace lazuli::backend {

Generator::Generator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}
uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}
void Generator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(state.numel() == 16 && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
              "lazuli: a generator's state is a tensor of 16 bytes");
  const auto* data = static_cast<const uint64_t*>(state.data());
  seed_ = data[0], offset_ = data[1];
}
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  auto t = at::detail::empty_cpu({16}, c10::ScalarType::Byte);
  auto* data = static_cast<uint64_t*>(t.mutable_data_ptr());
  data[0] = seed_, data[1] = offset_;
  return t.getIntrusivePtr();
}
Generator* Generator::clone_impl() const {
  auto* g = new Generator(device().index());
  g->seed_ = seed_, g->offset_ = offset_;
  return g;
}
Generator::Draw Generator::draw(int64_t count) {
  std::lock_guard lock(mutex_);
  Draw d{static_cast<int64_t>(seed_), static_cast<int64_t>(offset_)};
  offset_ += static_cast<uint64_t>(count);
  return d;
}
const at::Generator& default_generator() {
  static auto* g = new at::Generator(at::make_generator<Generator>(0));
  return *g;
}
Generator& generator_of(const std::optional<at::Generator>& g) {
  return *at::get_generator_or_default<Generator>(g, default_generator());
}

namespace {

using at::Tensor;
using std::optional;

bool floating(const Tensor& t) { return is_ours(t) && c10::isFloatingType(t.scalar_type()); }

// Uniform numbers in [0, 1) of this shape, in the compute type.
ir::Value uniform(lazy::Recording& r, const ir::Dims& shape, ir::DType type, Generator& g) {
  int64_t n = ir::product(shape);
  Generator::Draw d = g.draw(n);
  ir::Type position{ir::DType::I64, {n}};
  ir::Value index = r.emit(ir::Op::iota, {}, {{n}}, {&position, 1});
  ir::Value seed = r.number(d.seed, ir::DType::I64), offset = r.number(d.offset, ir::DType::I64);
  ir::Value u = r.emit(ir::Op::random_uniform, {seed, offset, index}, {{static_cast<int64_t>(ir::compute_type(type))}});
  if (ir::is_reduced_floating(type)) {
    // As many bits as the type's significand holds, so that the largest number does not round to 1.
    double steps = type == ir::DType::BF16 ? 256 : 2048;
    u = r.mul(r.emit(ir::Op::floor, {r.mul(u, steps)}), 1 / steps);
  }
  return r.reshape(u, shape);
}

Tensor& uniform_(Tensor& self, double from, double to, optional<at::Generator> g) {
  if (!floating(self) || !(from <= to)) return fall_back<Tensor>("aten::uniform_", "", self, from, to, g), self;
  lazy::Recording r;
  ir::DType t = lazy::to_ir(self.scalar_type()), c = ir::compute_type(t);
  ir::Value u = uniform(r, lazy::to_dims(self.sizes()), t, generator_of(g));
  r.write(self, r.convert(r.add(r.mul(u, r.number(to - from, c)), r.number(from, c)), t));
  return self;
}

// Box and Muller (1958), one normal number from two uniform ones; 1 - u is in (0, 1].
Tensor& normal_(Tensor& self, double mean, double deviation, optional<at::Generator> g) {
  if (!floating(self) || !(deviation >= 0)) return fall_back<Tensor>("aten::normal_", "", self, mean, deviation, g), self;
  lazy::Recording r;
  ir::DType t = lazy::to_ir(self.scalar_type()), c = ir::compute_type(t);
  ir::Dims shape = lazy::to_dims(self.sizes());
  Generator& generator = generator_of(g);
  ir::Value u = uniform(r, shape, t, generator), w = uniform(r, shape, t, generator);
  ir::Value radius = r.emit(ir::Op::sqrt, {r.mul(r.emit(ir::Op::log1p, {r.neg(u)}), -2.0)});
  ir::Value z = r.mul(radius, r.emit(ir::Op::cos, {r.mul(w, 6.283185307179586)}));
  r.write(self, r.convert(r.add(r.mul(z, r.number(deviation, c)), r.number(mean, c)), t));
  return self;
}

ir::Value kept(lazy::Recording& r, const ir::Dims& shape, ir::DType type, double p, Generator& g) {
  return r.emit(ir::Op::lt, {uniform(r, shape, type, g), r.number(p, ir::compute_type(type))});
}

Tensor& bernoulli_(Tensor& self, double p, optional<at::Generator> g) {
  if (!is_ours(self) || !(p >= 0 && p <= 1)) return fall_back<Tensor>("aten::bernoulli_", "float", self, p, g), self;
  lazy::Recording r;
  r.write(self, r.convert(kept(r, lazy::to_dims(self.sizes()), ir::DType::F32, p, generator_of(g)), lazy::to_ir(self.scalar_type())));
  return self;
}

std::tuple<Tensor, Tensor> dropout(const Tensor& x, double p, optional<bool> train) {
  if (!floating(x) || !(p >= 0 && p <= 1) || (train && !*train)) return fall_back_tuple<2>("aten::native_dropout", "", x, p, train);
  lazy::Recording r;
  ir::DType t = lazy::to_ir(x.scalar_type());
  ir::Value mask = kept(r, lazy::to_dims(x.sizes()), t, 1 - p, generator_of(std::nullopt));
  double scale = p == 1 ? 0 : 1 / (1 - p);
  ir::Value y = r.emit(ir::Op::where, {mask, r.mul(r.value(x), r.number(scale, t)), r.constant(0, t)});
  return {r.tensor(y, x.scalar_type()), r.tensor(mask, at::kBool)};
}
Tensor dropout_backward(const Tensor& gy, const Tensor& mask, double scale) {
  if (!floating(gy) || !is_ours(mask)) return fall_back<Tensor>("aten::native_dropout_backward", "", gy, mask, scale);
  lazy::Recording r;
  ir::DType t = lazy::to_ir(gy.scalar_type());
  ir::Value keep = r.convert(r.value(mask), ir::DType::Bool);
  return r.tensor(r.emit(ir::Op::where, {keep, r.mul(r.value(gy), r.number(scale, t)), r.constant(0, t)}), gy.scalar_type());
}

}  // namespace

void register_random(torch::Library& m) {
  m.impl("uniform_", uniform_);
  m.impl("normal_", normal_);
  m.impl("bernoulli_.float", bernoulli_);
  m.impl("native_dropout", dropout);
  m.impl("native_dropout_backward", dropout_backward);
}

}  // namespace lazuli::backend
