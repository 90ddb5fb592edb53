"""diffusers: models, pipelines and LoRA adapters on the device, as on the CPU."""

import pytest
import torch
from torch.testing import assert_close

diffusers = pytest.importorskip("diffusers")


def network():
    torch.manual_seed(0)
    return diffusers.UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        attention_head_dim=8,
    ).eval()


@pytest.mark.parametrize("kind", ["DDPM", "DDIM"])
def test_pipeline(kind):
    Pipeline = getattr(diffusers, f"{kind}Pipeline")

    def images(device):
        scheduler = getattr(diffusers, f"{kind}Scheduler")(num_train_timesteps=50)
        pipe = Pipeline(unet=network(), scheduler=scheduler).to(device)
        pipe.set_progress_bar_config(disable=True)
        assert pipe.device.type == device
        draw = torch.Generator().manual_seed(1)
        options = {"num_inference_steps": 4, "output_type": "np", "batch_size": 2}
        return torch.tensor(pipe(generator=draw, **options).images)

    assert_close(images("lazuli"), images("cpu"), rtol=1e-3, atol=1e-3)


def test_saving_and_loading(tmp_path):
    net = network().to("lazuli")
    net.save_pretrained(tmp_path)
    loaded = diffusers.UNet2DModel.from_pretrained(tmp_path).to("lazuli").eval()
    x, t = torch.randn(2, 1, 8, 8), torch.tensor([3, 7])
    with torch.no_grad():
        actual = loaded(x.to("lazuli"), t.to("lazuli")).sample
        expected = network()(x, t).sample
    assert_close(actual.cpu(), expected, rtol=1e-3, atol=1e-4)


def test_average_of_parameters():
    from diffusers.training_utils import EMAModel

    def averaged(device):
        net = network().to(device)
        average = EMAModel(net.parameters(), decay=0.5)
        for _ in range(3):
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.mul_(1.1)
            average.step(net.parameters())
        average.copy_to(net.parameters())
        return [p.detach().cpu() for p in net.parameters()]

    assert_close(averaged("lazuli"), averaged("cpu"))
