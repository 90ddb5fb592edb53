"""Architectures of transformers with small random configurations, and a batch for each.

A default configuration becomes small by its fields' names, which most architectures share. What
an architecture needs beside that stands in its line.
"""

import dataclasses
from collections.abc import Callable

import torch

VOCABULARY, LENGTH, BATCH, CLASSES, IMAGE = 128, 16, 2, 10, 32

SMALL = {
    "vocab_size src_vocab_size tgt_vocab_size": VOCABULARY,
    "hidden_size d_model n_embd dim embed_dim embedding_size emb_dim attention_hidden_size": 32,
    "hidden_sizes": [16, 32, 32, 32],
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers": 2,
    "num_encoder_layers num_decoder_layers num_key_value_heads num_kv_heads": 2,
    "num_experts_per_tok top_k moe_topk": 2,
    "num_attention_heads n_head n_heads num_heads": 4,
    "encoder_attention_heads decoder_attention_heads": 4,
    "num_experts num_local_experts n_routed_experts moe_num_experts": 4,
    "intermediate_size n_inner d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim ffn_hidden_size": 64,
    "moe_intermediate_size shared_expert_intermediate_size feed_forward_size d_inner": 64,
    "max_position_embeddings n_positions n_ctx": 64,
    "max_source_positions max_target_positions": 64,
    "d_kv head_dim patch_size projection_dim state_size attention_head_size": 8,
    "image_size": IMAGE,
    "layerdrop encoder_layerdrop decoder_layerdrop mask_time_prob mask_feature_prob": 0.0,
    "router_jitter_noise input_jitter_noise jitter_noise": 0.0,
    "pad_token_id eos_token_id": 1,
    "bos_token_id decoder_start_token_id": 3,
}
FIELDS = {field: value for fields, value in SMALL.items() for field in fields.split()}


def values_for(config) -> dict:
    """What makes a configuration small, and takes chance out of it."""
    found = {}
    for name, default in vars(config).items():
        if name in FIELDS:
            wanted = FIELDS[name]
            if default is None or isinstance(default, list | tuple) == isinstance(wanted, list):
                found[name] = wanted
        elif isinstance(default, float) and ("drop" in name or name.endswith("_pdrop")):
            found[name] = 0.0
        elif name.endswith("_config") and hasattr(default, "to_dict"):
            found[name] = {"model_type": default.model_type, **values_for(default)}
    return found


def merged(values: dict, more: dict) -> dict:
    """Nested dictionaries, the second over the first."""
    inner = {k: merged(values[k], v) for k, v in more.items() if isinstance(values.get(k), dict)}
    return {**values, **more, **inner}


def tokens() -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (BATCH, LENGTH))


def text() -> dict:
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[0, LENGTH - 4 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


def language() -> dict:
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone()}


def translation() -> dict:
    return {"input_ids": tokens(), "labels": tokens()}


def pixels() -> dict:
    return {"pixel_values": torch.randn(BATCH, 3, IMAGE, IMAGE)}


def image() -> dict:
    return {**pixels(), "labels": torch.randint(CLASSES, (BATCH,))}


def larger_image() -> dict:
    return {
        "pixel_values": torch.randn(BATCH, 3, 64, 64),
        "labels": torch.randint(CLASSES, (BATCH,)),
    }


def segmentation() -> dict:
    return {**pixels(), "labels": torch.randint(CLASSES, (BATCH, IMAGE, IMAGE))}


def wave() -> dict:
    return {"input_values": torch.randn(BATCH, 1600), "labels": torch.randint(CLASSES, (BATCH,))}


def spectrogram() -> dict:
    return {
        "input_features": torch.randn(BATCH, 80, 128),
        "decoder_input_ids": tokens(),
        "labels": tokens(),
    }


def image_and_text() -> dict:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pixels()}


@dataclasses.dataclass(frozen=True)
class Kind:
    auto: str
    batch: Callable[[], dict]
    names: str
    values: dict = dataclasses.field(default_factory=dict)


KINDS = {
    "encoder": Kind(
        "AutoModelForMaskedLM",
        text,
        "bert big_bird convbert deberta deberta-v2 distilbert electra esm eurobert flaubert fnet "
        "funnel ibert layoutlm longformer megatron-bert mobilebert modernbert mpnet mra "
        "nomic_bert nystromformer rembert roberta roberta-prelayernorm roformer squeezebert tapas "
        "xlm xlm-roberta-xl yoso",
    ),
    "decoder": Kind(
        "AutoModelForCausalLM",
        language,
        "apertus biogpt bitnet bloom codegen cohere2 cpmant ctrl diffllama doge exaone4 falcon "
        "gemma gemma2 gemma3_text glm4 gpt2 gpt_bigcode gpt_neox gpt_neox_japanese gptj granite "
        "helium llama minicpm3 mistral mpt nemotron olmo2 openai-gpt opt persimmon phi phi3 "
        "qwen2 qwen3 recurrent_gemma smollm3 stablelm starcoder2 xglm xlnet",
    ),
    "mixture": Kind(
        "AutoModelForCausalLM",
        language,
        "afmoe aria_text deepseek_v3 ernie4_5_moe exaone_moe flex_olmo glm4_moe gpt_oss "
        "granitemoe hunyuan_v1_moe jetmoe minimax mixtral olmoe phimoe qwen2_moe qwen3_moe",
    ),
    "state-space": Kind(
        "AutoModelForCausalLM",
        language,
        "bamba falcon_h1 falcon_mamba jamba lfm2 mamba mamba2 qwen3_next rwkv",
    ),
    "encoder-decoder": Kind(
        "AutoModelForSeq2SeqLM",
        translation,
        "bart bigbird_pegasus blenderbot fsmt led longt5 m2m_100 marian mbart mt5 nllb-moe "
        "pegasus pegasus_x plbart prophetnet switch_transformers t5 umt5",
        {"decoder_start_token_id": 3},
    ),
    "vision": Kind(
        "AutoModelForImageClassification",
        image,
        "beit bit cvt dinov2 dinov2_with_registers focalnet ijepa mobilenet_v1 "
        "mobilenet_v2 mobilevit poolformer pvt pvt_v2 regnet resnet segformer siglip swiftformer "
        "vit vit_msn",
        {"num_labels": CLASSES},
    ),
    "larger vision": Kind(
        "AutoModelForImageClassification",
        larger_image,
        "convnext convnextv2 swinv2",
        {"num_labels": CLASSES, "image_size": 64, "patch_size": 4},
    ),
    "detection": Kind("AutoModelForObjectDetection", pixels, "detr deformable_detr yolos"),
    "segmentation": Kind(
        "AutoModelForSemanticSegmentation",
        segmentation,
        "mobilenet_v2 mobilevit segformer",
        {"num_labels": CLASSES},
    ),
    "audio": Kind(
        "AutoModelForAudioClassification",
        wave,
        "data2vec-audio hubert sew sew-d unispeech unispeech-sat wav2vec2 wav2vec2-conformer wavlm",
        {"num_labels": CLASSES},
    ),
    "speech": Kind("AutoModelForSpeechSeq2Seq", spectrogram, "whisper"),
    "multimodal": Kind(
        "AutoModelForZeroShotImageClassification",
        image_and_text,
        "altclip blip chinese_clip clip siglip",
    ),
}

# What an architecture needs beside the names that most share.
UNCACHED = {"use_cache": False}
LATENT = {
    "num_key_value_heads": 4,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
}
PYRAMID = {"hidden_sizes": [8, 16, 40, 64]}
WINDOWS = {"embed_dim": 24, "depths": [1, 1, 2, 1], "window_size": 4}
BACKBONE = {
    "model_type": "resnet",
    "hidden_sizes": [16, 16, 32, 32],
    "embedding_size": 16,
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
}
MORE = {
    "bamba": {**UNCACHED, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8},
    "bit": {"hidden_sizes": [32, 32, 64, 64], "embedding_size": 32, "num_groups": 8},
    "codegen": {"rotary_dim": 4},
    "deepseek_v3": {**LATENT, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
    "deformable_detr": {"backbone_config": {**BACKBONE, "out_features": ["stage2", "stage3"]}},
    "detr": {"backbone_config": {**BACKBONE, "out_features": ["stage4"]}},
    "ernie4_5_moe": {"moe_k": 2},
    "falcon_h1": {"mamba_chunk_size": 8},
    "gptj": {"rotary_dim": 4},
    "jamba": UNCACHED,
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8},
    "minicpm3": LATENT,
    "pvt": PYRAMID,
    "pvt_v2": PYRAMID,
    "qwen3_next": {
        **UNCACHED,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
    "recurrent_gemma": UNCACHED,
    "swinv2": WINDOWS,
    "yolos": {"image_size": [32, 32]},
}


def build(kind: str, name: str):
    """The model with weights of the current seed, and its batch."""
    import transformers

    transformers.logging.set_verbosity_error()
    about = KINDS[kind]
    config_class = transformers.CONFIG_MAPPING[name]
    values = merged(merged(values_for(config_class()), about.values), MORE.get(name, {}))
    model = getattr(transformers, about.auto).from_config(config_class(**values))
    return model, about.batch()
