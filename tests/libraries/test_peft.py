"""peft: adapters of a model on the device, trained, saved, loaded and merged as on the CPU."""

import pytest
import torch
from torch.testing import assert_close

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


def base():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    return transformers.LlamaForCausalLM(config)


CONFIGS = {
    "lora": lambda: peft.LoraConfig(
        r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    ),
    "dora": lambda: peft.LoraConfig(
        r=4, target_modules=["q_proj"], use_dora=True, task_type="CAUSAL_LM"
    ),
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        task_type="CAUSAL_LM",
    ),
    "prompt": lambda: peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
}


def words():
    return torch.randint(0, 64, (4, 12), generator=torch.Generator().manual_seed(1))


def train(kind, device):
    model = base().to(device)
    torch.manual_seed(1)
    model = peft.get_peft_model(model, CONFIGS[kind]())
    model.to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    ids = words().to(device)
    losses = []
    for _ in range(5):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return model.eval(), losses


@pytest.mark.parametrize("kind", CONFIGS)
def test_training_saving_and_loading(tmp_path, kind):
    _, expected = train(kind, "cpu")
    model, actual = train(kind, "lazuli")
    assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    model.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(base().to("lazuli"), str(tmp_path)).eval()
    ids = words().to("lazuli")
    with torch.no_grad():
        result = loaded(input_ids=ids).logits
        assert result.device.type == "lazuli"
        assert_close(result.cpu(), model(input_ids=ids).logits.cpu(), rtol=1e-4, atol=1e-4)


def test_merging():
    model, _ = train("lora", "lazuli")
    ids = words().to("lazuli")
    with torch.no_grad():
        expected = model(input_ids=ids).logits.cpu()
        merged = model.merge_and_unload()
        assert_close(merged(input_ids=ids).logits.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_trainer_keeps_the_adapters_on_the_device(tmp_path):
    def losses(device):
        torch.manual_seed(1)
        model = peft.get_peft_model(base().to(device), CONFIGS["lora"]())
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / device),
            max_steps=4,
            per_device_train_batch_size=2,
            logging_steps=1,
            learning_rate=1e-2,
            report_to=[],
            disable_tqdm=True,
            save_steps=2,
            use_cpu=device == "cpu",
        )
        data = [{"input_ids": row, "labels": row} for row in words().tolist()]
        trainer = transformers.Trainer(model, arguments, train_dataset=data)
        trainer.train()
        assert trainer.model.device.type == device
        again = transformers.Trainer(model, arguments, train_dataset=data)
        again.train(resume_from_checkpoint=str(tmp_path / device / "checkpoint-2"))
        histories = (trainer.state.log_history, again.state.log_history)
        return [[entry["loss"] for entry in h if "loss" in entry] for h in histories]

    assert_close(losses("lazuli"), losses("cpu"), rtol=1e-4, atol=1e-4)
