#include "tests/gpu/emulator.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/TargetSelect.h>
#include <ucontext.h>

#include <bit>
#include <cmath>
#include <stdexcept>

#include "ir/interpret/scalar.h"
#include "jit/devices/cuda/emission.h"
#include "jit/kernels/compiler.h"
#include "lowering/nest/codegen.h"

namespace lazuli::testing {
namespace {

using KernelFunction = void (*)(const int64_t* args);

// One block's threads, of which one runs at a time.
class Block {
 public:
  static constexpr unsigned kWarp = 32;

  Block(KernelFunction kernel, const int64_t* args, unsigned threads)
      : kernel_(kernel), args_(args), threads_(threads) {
    for (Thread& t : threads_) t.stack = std::make_unique<char[]>(kStack);
    warps_.resize(threads / kWarp + 1);
  }

  void run(uint32_t x, uint32_t y) {
    block_x = x;
    block_y = y;
    current = this;
    arrived_ = 0;
    for (Warp& w : warps_) w = {};
    for (Thread& t : threads_) {
      t.state = Ready;
      getcontext(&t.context);
      t.context.uc_stack.ss_sp = t.stack.get();
      t.context.uc_stack.ss_size = kStack;
      t.context.uc_link = &scheduler_;
      makecontext(&t.context, &Block::enter, 0);
    }
    for (size_t done = 0; done < threads_.size();) {
      bool progress = false;
      for (thread_ = 0; thread_ < threads_.size(); ++thread_) {
        if (threads_[thread_].state != Ready) continue;
        progress = true;
        swapcontext(&scheduler_, &threads_[thread_].context);
        done += threads_[thread_].state == Done;
      }
      if (!progress) throw std::runtime_error("threads wait at a barrier or shuffle that others never reach");
    }
  }

  uint32_t thread() const { return thread_; }

  void barrier() {
    if (++arrived_ == threads_.size()) {
      arrived_ = 0;
      for (Thread& t : threads_)
        if (t.state == AtBarrier) t.state = Ready;
      return;
    }
    wait(AtBarrier);
  }

  uint32_t exchange(uint32_t x, uint32_t distance) {
    const uint32_t own = thread_, warp = own / kWarp;
    Warp& w = warps_[warp];
    const unsigned round = threads_[own].round++ & 1;
    w.values[round][own % kWarp] = x;
    if (++w.arrived == kWarp) {
      w.arrived = 0;
      for (uint32_t t = warp * kWarp; t < (warp + 1) * kWarp; ++t)
        if (threads_[t].state == AtShuffle) threads_[t].state = Ready;
    } else {
      wait(AtShuffle);
    }
    return w.values[round][(own % kWarp) ^ distance];
  }

  static thread_local Block* current;
  uint32_t block_x = 0, block_y = 0;

 private:
  static constexpr size_t kStack = 128 << 10;
  enum ThreadState { Ready, AtBarrier, AtShuffle, Done };
  struct Thread {
    ThreadState state = Ready;
    unsigned round = 0;
    ucontext_t context;
    std::unique_ptr<char[]> stack;
  };
  struct Warp {
    unsigned arrived = 0;
    uint32_t values[2][kWarp] = {};
  };

  static void enter() {
    Block& b = *current;
    b.kernel_(b.args_);
    b.threads_[b.thread_].state = Done;
  }
  void wait(ThreadState state) {
    threads_[thread_].state = state;
    swapcontext(&threads_[thread_].context, &scheduler_);
  }

  KernelFunction kernel_;
  const int64_t* args_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  ucontext_t scheduler_;
  uint32_t thread_ = 0;
  size_t arrived_ = 0;
};
thread_local Block* Block::current = nullptr;

uint32_t emulated_thread() { return Block::current->thread(); }
uint32_t emulated_block_x() { return Block::current->block_x; }
uint32_t emulated_block_y() { return Block::current->block_y; }
void emulated_barrier() { Block::current->barrier(); }
void emulated_warp_barrier(uint32_t) { Block::current->exchange(0, 0); }
uint32_t emulated_exchange(uint32_t, uint32_t x, uint32_t distance, uint32_t) {
  return Block::current->exchange(x, distance);
}

uint32_t pair_of(ir::DType type, float high, float low) {
  uint16_t h = 0, l = 0;
  ir::store_number(&h, type, {high, 0});
  ir::store_number(&l, type, {low, 0});
  return uint32_t{h} << 16 | l;
}
uint32_t emulated_bf16_pair(float high, float low) { return pair_of(ir::DType::BF16, high, low); }
uint32_t emulated_f16_pair(float high, float low) { return pair_of(ir::DType::F16, high, low); }

float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float emulated_exp2(float x) { return flushed(std::exp2(x)); }
float emulated_gradual_exp2(float x) { return std::exp2(x); }
float emulated_reciprocal(float x) { return flushed(1 / flushed(x)); }
float emulated_sqrt(float x) { return std::sqrt(x); }
float emulated_rsqrt(float x) { return 1 / std::sqrt(x); }
float emulated_log2(float x) { return std::log2(x); }

struct Stand {
  const char* intrinsic;
  const char* name;
  void* address;
};
const Stand kStands[] = {
    {"llvm.nvvm.read.ptx.sreg.tid.x", "emulated_thread", reinterpret_cast<void*>(&emulated_thread)},
    {"llvm.nvvm.read.ptx.sreg.ctaid.x", "emulated_block_x", reinterpret_cast<void*>(&emulated_block_x)},
    {"llvm.nvvm.read.ptx.sreg.ctaid.y", "emulated_block_y", reinterpret_cast<void*>(&emulated_block_y)},
    {"llvm.nvvm.barrier0", "emulated_barrier", reinterpret_cast<void*>(&emulated_barrier)},
    {"llvm.nvvm.bar.warp.sync", "emulated_warp_barrier", reinterpret_cast<void*>(&emulated_warp_barrier)},
    {"llvm.nvvm.shfl.sync.bfly.i32", "emulated_exchange", reinterpret_cast<void*>(&emulated_exchange)},
    {"llvm.nvvm.ex2.approx.ftz.f", "emulated_exp2", reinterpret_cast<void*>(&emulated_exp2)},
    {"llvm.nvvm.ex2.approx.f", "emulated_gradual_exp2", reinterpret_cast<void*>(&emulated_gradual_exp2)},
    {"llvm.nvvm.rcp.approx.ftz.f", "emulated_reciprocal", reinterpret_cast<void*>(&emulated_reciprocal)},
    {"llvm.nvvm.sqrt.approx.f", "emulated_sqrt", reinterpret_cast<void*>(&emulated_sqrt)},
    {"llvm.nvvm.rsqrt.approx.f", "emulated_rsqrt", reinterpret_cast<void*>(&emulated_rsqrt)},
    {"llvm.nvvm.lg2.approx.f", "emulated_log2", reinterpret_cast<void*>(&emulated_log2)},
    {"llvm.nvvm.ff2bf16x2.rn", "emulated_bf16_pair", reinterpret_cast<void*>(&emulated_bf16_pair)},
    {"llvm.nvvm.ff2f16x2.rn", "emulated_f16_pair", reinterpret_cast<void*>(&emulated_f16_pair)},
};

// Calls of the GPU's intrinsics become calls of the functions above.
void replace_intrinsics(llvm::Module& module) {
  llvm::IRBuilder<> b(module.getContext());
  for (const Stand& s : kStands) {
    llvm::Function* old = module.getFunction(s.intrinsic);
    if (!old) continue;
    llvm::Type* result = old->getReturnType()->isVectorTy() ? b.getInt32Ty() : old->getReturnType();
    auto stand =
        module.getOrInsertFunction(s.name, llvm::FunctionType::get(result, old->getFunctionType()->params(), false));
    for (llvm::User* user : llvm::make_early_inc_range(old->users())) {
      auto* call = llvm::cast<llvm::CallInst>(user);
      b.SetInsertPoint(call);
      llvm::Value* y = b.CreateCall(stand, llvm::SmallVector<llvm::Value*, 4>(call->args()));
      if (!result->isVoidTy()) call->replaceAllUsesWith(b.CreateBitCast(y, call->getType()));
      call->eraseFromParent();
    }
    old->eraseFromParent();
  }
}

template <class T>
T checked(llvm::Expected<T> x) {
  if (!x) throw std::runtime_error(llvm::toString(x.takeError()));
  return std::move(*x);
}

}  // namespace

struct EmulatedKernel::State {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  KernelFunction kernel = nullptr;
};

EmulatedKernel::EmulatedKernel(const lowering::LoopNest& nest, const lowering::GpuVariant& variant)
    : state_(std::make_unique<State>()) {
  jit::cuda::emit_for_gpu(nest, variant, "emulated");
  jit::Compiler::host();  // has LLVM know this machine
  auto builder = checked(llvm::orc::JITTargetMachineBuilder::detectHost());
  state_->jit = checked(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(builder)).create());
  llvm::orc::LLJIT& jit = *state_->jit;

  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("kernel", *context);
  module->setDataLayout(jit.getDataLayout());
  module->setTargetTriple(jit.getTargetTriple().str());
  lowering::emit_gpu_kernel(*module, nest, "kernel", variant);
  replace_intrinsics(*module);
  llvm::Function* f = module->getFunction("kernel");
  f->setCallingConv(llvm::CallingConv::C);
  f->removeParamAttr(0, llvm::Attribute::ByVal);

  llvm::orc::SymbolMap symbols;
  for (const Stand& s : kStands)
    symbols[jit.mangleAndIntern(s.name)] = {llvm::orc::ExecutorAddr::fromPtr(s.address),
                                            llvm::JITSymbolFlags::Exported};
  llvm::cantFail(jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  jit.getMainJITDylib().addGenerator(checked(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess('\0')));
  llvm::cantFail(jit.addIRModule({std::move(module), std::move(context)}));
  state_->kernel = checked(jit.lookup("kernel")).toPtr<KernelFunction>();
}

EmulatedKernel::~EmulatedKernel() = default;
EmulatedKernel::EmulatedKernel(EmulatedKernel&&) noexcept = default;

void EmulatedKernel::launch(const lowering::GpuLaunch& launch, const std::vector<int64_t>& args) const {
  Block block(state_->kernel, args.data(), launch.threads);
  for (uint32_t y = 0; y < launch.grid[1]; ++y)
    for (uint32_t x = 0; x < launch.grid[0]; ++x) block.run(x, y);
}

}  // namespace lazuli::testing
