"""Trains a small diffusion model on scikit-learn's digits, as diffusers' own examples do.

    python diffusion_digits.py [steps]

Nothing here says which device it runs on: accelerate chooses.
"""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel
from sklearn.datasets import load_digits
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def images() -> TensorDataset:
    """8 x 8 points from -1 to 1."""
    points, _ = load_digits(return_X_y=True)
    return TensorDataset(torch.tensor(points, dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    accelerator = Accelerator(gradient_accumulation_steps=2)
    set_seed(0)
    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        attention_head_dim=8,
    )
    scheduler = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = get_cosine_schedule_with_warmup(optimizer, 10, steps)
    loader = DataLoader(images(), batch_size=32, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    average = EMAModel(accelerator.unwrap_model(model).parameters(), decay=0.99)

    draw = torch.Generator().manual_seed(0)  # on the CPU: the same numbers wherever it trains
    step, total = 0, 0.0
    while step < steps:
        for (clean,) in loader:
            noise = torch.randn(clean.shape, generator=draw).to(clean.device)
            times = torch.randint(0, 100, (len(clean),), generator=draw).to(clean.device)
            with accelerator.accumulate(model):
                noisy = scheduler.add_noise(clean, noise, times)
                loss = F.mse_loss(model(noisy, times, return_dict=False)[0], noise)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                average.step(model.parameters())
            total += loss.detach()
            step += 1
            if step % 10 == 0:
                accelerator.print(f"step {step}: loss {float(total) / 10:.4f}")
                total = 0.0
            if step == steps:
                break

    average.copy_to(model.parameters())
    pipeline = DDPMPipeline(unet=accelerator.unwrap_model(model).eval(), scheduler=scheduler)
    pipeline.set_progress_bar_config(disable=True)
    sampled = pipeline(
        batch_size=4,
        generator=torch.Generator().manual_seed(1),
        num_inference_steps=10,
        output_type="np",
    ).images
    accelerator.print(f"sampled: mean {sampled.mean():.3f}, deviation {sampled.std():.3f}")
    accelerator.print(f"trained on {accelerator.device.type}")


if __name__ == "__main__":
    main()
