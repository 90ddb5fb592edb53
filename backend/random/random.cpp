// Random numbers and dropout, drawn inside fused kernels from a counter-based generator; under LAZULI_RANDOM=eager they
// are eager's own kernels on the CPU's generators (generator.h).
#include <limits>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include "backend/device/generator.h"
#include "backend/random/draws.h"
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"

namespace lazuli::backend {

namespace {

// LAZULI_RANDOM=eager draws what the CPU draws; reference mode what the backing device does.
at::Generator eagers_generator(uint64_t seed) {
  return lazy::is_reference_mode() ? backing_generator(seed) : at::detail::createCPUGenerator(seed);
}
at::Generator eagers_default_generator() {
  return lazy::is_reference_mode() ? at::globalContext().defaultGenerator(lazy::backing().device())
                                   : at::detail::getDefaultCPUGenerator();
}

thread_local std::optional<at::Generator> drawn_with;  // in the default one's place

}  // namespace

at::Generator backing_generator(uint64_t seed) {
  const c10::Device device = lazy::backing().device();
  if (device.is_cpu()) return at::detail::createCPUGenerator(seed);
  at::Generator g = at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
  g.set_current_seed(seed);
  return g;
}

Generator::Generator(c10::DeviceIndex index, at::Generator eager)
    : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      eager_(std::move(eager)) {}
at::Generator& Generator::eager() const {
  if (!eager_.defined()) eager_ = eagers_generator(seed_);
  return eager_;
}
void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
  if (draws_as_eager()) eager().set_current_seed(seed);
}
uint64_t Generator::current_seed() const { return draws_as_eager() ? eager().current_seed() : seed_; }
uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}
void Generator::set_offset(uint64_t offset) {
  if (draws_as_eager()) return eager().set_offset(offset);
  offset_ = offset;
}
uint64_t Generator::get_offset() const { return draws_as_eager() ? eager().get_offset() : offset_; }
void Generator::set_state(const c10::TensorImpl& state) {
  const bool is_ours = state.numel() == 16 && state.dtype() == caffe2::TypeMeta::Make<uint8_t>();
  if (draws_as_eager()) {
    TORCH_CHECK(!is_ours || !eager().device().is_cpu(),
                "lazuli: under LAZULI_RANDOM=eager a generator's state is the CPU's, and this one was taken without");
    return eager().unsafeGetGeneratorImpl()->set_state(state);
  }
  TORCH_CHECK(is_ours, "lazuli: a generator's state is a tensor of 16 bytes");
  const auto* data = static_cast<const uint64_t*>(state.data());
  seed_ = data[0], offset_ = data[1];
}
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  if (draws_as_eager()) return eager().unsafeGetGeneratorImpl()->get_state();
  auto t = at::detail::empty_cpu({16}, c10::ScalarType::Byte);
  auto* data = static_cast<uint64_t*>(t.mutable_data_ptr());
  data[0] = seed_, data[1] = offset_;
  return t.getIntrusivePtr();
}
Generator* Generator::clone_impl() const {
  auto* g = new Generator(device().index(), draws_as_eager() ? eager().clone() : at::Generator());
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
  static auto* g = new at::Generator(at::make_generator<Generator>(0, eagers_default_generator()));
  return *g;
}
void draw_with(std::optional<at::Generator> g) { drawn_with = std::move(g); }
Generator& generator_of(const std::optional<at::Generator>& g) {
  return *at::get_generator_or_default<Generator>(g, drawn_with ? *drawn_with : default_generator());
}
bool is_of_host(const std::optional<at::Generator>& g) { return g && g->defined() && g->device().is_cpu(); }
bool draws_as_eager() {
  if (lazy::config().random != "eager") return false;
  TORCH_CHECK(lazy::is_reference_mode() || lazy::backing().has_host_kernels,
              "lazuli: LAZULI_RANDOM=eager draws what eager draws on the CPU: it needs LAZULI_BACKING=cpu");
  return true;
}

ir::Value uniform(lazy::Recording& r, const ir::Dims& shape, ir::DType type, Generator& g) {
  int64_t n = ir::product(shape);
  Generator::Draw d = g.draw(n);
  ir::Type position{ir::DType::I64, {n}};
  ir::Value index = r.emit(ir::Op::iota, {}, {{n}}, {&position, 1});
  ir::Value seed = r.number(d.seed, ir::DType::I64), offset = r.number(d.offset, ir::DType::I64);
  r.note_draw(seed, offset, n, &g == &generator_of(std::nullopt));
  ir::Value u = r.emit(ir::Op::random_uniform, {seed, offset, index}, {{static_cast<int64_t>(ir::compute_type(type))}});
  if (ir::is_reduced_floating(type)) {
    // As many bits as the type's significand holds, so that the largest number does not round to 1.
    double steps = type == ir::DType::BF16 ? 256 : 2048;
    u = r.mul(r.emit(ir::Op::floor, {r.mul(u, steps)}), 1 / steps);
  }
  return r.reshape(u, shape);
}

ir::Value positive_uniform(lazy::Recording& r, const ir::Dims& shape, ir::DType type, Generator& g) {
  const ir::DType compute = ir::compute_type(type);
  const double least = type == ir::DType::F64 ? 0x1p-54 : type == ir::DType::F16 ? 0x1p-24 : 0x1p-25;
  return r.emit(ir::Op::maximum, {uniform(r, shape, compute, g), r.constant(least, compute)});
}

ir::Value exponential(lazy::Recording& r, const ir::Dims& shape, ir::DType type, double rate, Generator& g) {
  const ir::Value u = positive_uniform(r, shape, type, g);
  return r.mul(r.emit(ir::Op::log1p, {r.neg(u)}), r.number(-1 / rate, ir::compute_type(type)));
}

namespace {

using at::Tensor;
using std::optional;

// Whether kernels of ours fill it with random numbers.
bool is_drawn(const Tensor& t) { return is_ours(t) && !draws_as_eager(); }
// Whether kernels of ours fill it; what several of its elements in one place are is eager's to say.
bool is_filled(const Tensor& t, const optional<at::Generator>& g) {
  return is_drawn(t) && !overlaps_itself(t) && !is_of_host(g);
}

Tensor& uniform_(Tensor& self, double from, double to, optional<at::Generator> g) {
  if (!is_filled(self, g) || !is_floating(self) || !(from <= to))
    return fall_back<Tensor>("aten::uniform_", "", self, from, to, g), self;
  lazy::Recording r;
  ir::DType t = lazy::to_ir(self.scalar_type()), c = ir::compute_type(t);
  ir::Value u = uniform(r, lazy::to_dims(self.sizes()), t, generator_of(g));
  r.write(self, r.convert(r.add(r.mul(u, r.number(to - from, c)), r.number(from, c)), t));
  return self;
}

// Box and Muller (1958), one normal number from two uniform ones; 1 - u is in (0, 1].
Tensor& normal_(Tensor& self, double mean, double deviation, optional<at::Generator> g) {
  if (!is_filled(self, g) || !is_floating(self) || !(deviation >= 0))
    return fall_back<Tensor>("aten::normal_", "", self, mean, deviation, g), self;
  lazy::Recording r;
  ir::DType t = lazy::to_ir(self.scalar_type()), c = ir::compute_type(t);
  ir::Dims shape = lazy::to_dims(self.sizes());
  Generator& generator = generator_of(g);
  ir::Value u = uniform(r, shape, c, generator), w = uniform(r, shape, c, generator);
  ir::Value radius = r.emit(ir::Op::sqrt, {r.mul(r.emit(ir::Op::log1p, {r.neg(u)}), -2.0)});
  ir::Value z = r.mul(radius, r.emit(ir::Op::cos, {r.mul(w, 6.283185307179586)}));
  r.write(self, r.convert(r.add(r.mul(z, r.number(deviation, c)), r.number(mean, c)), t));
  return self;
}

// Fills a floating tensor with what `of` makes of uniform numbers from (0, 1), computed at full precision. The smallest
// is not zero in the tensor's type either.
template <class F>
Tensor& transformed(Tensor& self, const optional<at::Generator>& g, F of) {
  lazy::Recording r;
  ir::DType t = lazy::to_ir(self.scalar_type()), c = ir::compute_type(t);
  ir::Value u = positive_uniform(r, lazy::to_dims(self.sizes()), t, generator_of(g));
  r.write(self, r.convert(of(r, u, c), t));
  return self;
}

Tensor& exponential_(Tensor& self, double lambda, optional<at::Generator> g) {
  if (!is_filled(self, g) || !is_floating(self) || !(lambda > 0))
    return fall_back<Tensor>("aten::exponential_", "", self, lambda, g), self;
  lazy::Recording r;
  const ir::DType t = lazy::to_ir(self.scalar_type());
  r.write(self, r.convert(exponential(r, lazy::to_dims(self.sizes()), t, lambda, generator_of(g)), t));
  return self;
}

Tensor& cauchy_(Tensor& self, double median, double sigma, optional<at::Generator> g) {
  if (!is_filled(self, g) || !is_floating(self) || !(sigma > 0))
    return fall_back<Tensor>("aten::cauchy_", "", self, median, sigma, g), self;
  return transformed(self, g, [&](lazy::Recording& r, ir::Value u, ir::DType c) {
    ir::Value x = r.emit(ir::Op::tan, {r.mul(r.add(u, -0.5), 3.141592653589793)});
    return r.add(r.mul(x, r.number(sigma, c)), r.number(median, c));
  });
}

// Integers from `from` to `from + range - 1`, by 53 random bits each.
Tensor& integers(Tensor& self, int64_t from, int64_t range, const optional<at::Generator>& g) {
  lazy::Recording r;
  ir::Value u = uniform(r, lazy::to_dims(self.sizes()), ir::DType::F64, generator_of(g));
  ir::Value n = r.convert(r.mul(u, r.number(static_cast<double>(range), ir::DType::F64)), ir::DType::I64);
  r.write(self, r.convert(r.add(n, r.number(from, ir::DType::I64)), lazy::to_ir(self.scalar_type())));
  return self;
}

// The integers 0 to this that a type holds exactly; of an unsigned or floating type the largest such row.
int64_t largest_integer(c10::ScalarType type) {
  if (type == at::kBool) return 1;
  if (c10::isFloatingType(type)) {
    const int digits = type == at::kBFloat16 ? 8 : type == at::kHalf ? 11 : type == at::kFloat ? 24 : 53;
    return int64_t{1} << digits;
  }
  const int bits = static_cast<int>(c10::elementSize(type)) * 8 - (c10::isSignedType(type) ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

// Whether `integers` gives each integer of the range, which the type holds, the same chance.
bool are_drawn(const Tensor& t, int64_t from, int64_t to, const optional<at::Generator>& g) {
  constexpr int64_t kMostRange = int64_t{1} << 48;
  if (!is_filled(t, g) || t.is_complex() || !ir::is_native(lazy::to_ir(t.scalar_type()))) return false;
  const int64_t largest = largest_integer(t.scalar_type());
  const int64_t least = t.scalar_type() == at::kBool || !c10::isSignedType(t.scalar_type()) ? 0
                        : c10::isFloatingType(t.scalar_type())                              ? -largest
                                                                                            : -largest - 1;
  return from < to && from >= least && to - 1 <= largest && to <= kMostRange && from >= -kMostRange;
}

Tensor& random_(Tensor& self, optional<at::Generator> g) {
  const int64_t largest = is_filled(self, g) && !self.is_complex() ? largest_integer(self.scalar_type()) : 0;
  if (largest == std::numeric_limits<int64_t>::max() || !are_drawn(self, 0, largest + 1, g))
    return fall_back<Tensor>("aten::random_", "", self, g), self;
  return integers(self, 0, largest + 1, g);
}
Tensor& random_to(Tensor& self, int64_t to, optional<at::Generator> g) {
  if (!are_drawn(self, 0, to, g)) return fall_back<Tensor>("aten::random_", "to", self, to, g), self;
  return integers(self, 0, to, g);
}
Tensor& random_from(Tensor& self, int64_t from, optional<int64_t> to, optional<at::Generator> g) {
  if (!to || !are_drawn(self, from, *to, g)) return fall_back<Tensor>("aten::random_", "from", self, from, to, g), self;
  return integers(self, from, *to - from, g);
}

// True with probability p, whatever the type of what it is for can tell apart.
ir::Value kept(lazy::Recording& r, const ir::Dims& shape, double p, Generator& g) {
  return r.emit(ir::Op::lt, {uniform(r, shape, ir::DType::F32, g), r.number(p, ir::DType::F32)});
}

Tensor& bernoulli_(Tensor& self, double p, optional<at::Generator> g) {
  if (!is_filled(self, g) || !(p >= 0 && p <= 1))
    return fall_back<Tensor>("aten::bernoulli_", "float", self, p, g), self;
  lazy::Recording r;
  r.write(self, r.convert(kept(r, lazy::to_dims(self.sizes()), p, generator_of(g)), lazy::to_ir(self.scalar_type())));
  return self;
}

std::tuple<Tensor, Tensor> dropout(const Tensor& x, double p, optional<bool> train) {
  if (!is_drawn(x) || !is_floating(x) || !(p >= 0 && p <= 1) || (train && !*train))
    return fall_back_tuple<2>("aten::native_dropout", "", x, p, train);
  // Results lie in memory as the operand does.
  const Operands operands{{&x, {}}};
  const lazy::Order order = result_order(operands, lazy::to_dims(x.sizes()));
  lazy::Recording r;
  const ir::DType t = lazy::to_ir(x.scalar_type());
  const ir::Value v = read(r, operands[0], t, order);
  const ir::Value mask = kept(r, r.type(v).shape, 1 - p, generator_of(std::nullopt));
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  // A product with zero, as eager's: what is nan or infinite stays nan where it is dropped. The derivative reads the
  // mask.
  const ir::Value y = r.emit(ir::Op::where, {mask, r.mul(v, r.number(scale, t)), r.mul(v, r.constant(0, t))});
  const Tensor out = r.tensor(y, x.scalar_type(), order), dropped = r.tensor(mask, at::kBool, order);
  for (const Tensor& result : {out, dropped}) take_strides_of_ones(result, operands);
  return {out, dropped};
}
Tensor dropout_backward(const Tensor& gy, const Tensor& mask, double scale) {
  if (!is_floating(gy) || !is_ours(mask))
    return fall_back<Tensor>("aten::native_dropout_backward", "", gy, mask, scale);
  const Operands operands{{&gy, {}}, {&mask, {}}};
  const ir::Dims shape = broadcast_shape(operands);
  const lazy::Order order = result_order(operands, shape);
  lazy::Recording r;
  const ir::DType t = lazy::to_ir(gy.scalar_type());
  const ir::Value keep = read(r, operands[1], ir::DType::Bool, order);
  const ir::Value factor = r.emit(ir::Op::where, {keep, r.number(scale, t), r.constant(0, t)});
  const Tensor out = r.tensor(r.mul(read(r, operands[0], t, order), factor), gy.scalar_type(), order);
  take_strides_of_ones(out, operands);
  return out;
}

}  // namespace

void register_random(torch::Library& m) {
  m.impl("uniform_", uniform_);
  m.impl("normal_", normal_);
  m.impl("bernoulli_.float", bernoulli_);
  m.impl("exponential_", exponential_);
  m.impl("cauchy_", cauchy_);
  m.impl("random_", random_);
  m.impl("random_.to", random_to);
  m.impl("random_.from", random_from);
  m.impl("native_dropout", dropout);
  m.impl("native_dropout_backward", dropout_backward);
}

}  // namespace lazuli::backend
