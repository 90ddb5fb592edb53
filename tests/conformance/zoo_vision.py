"""Architectures of timm and torchvision with random weights, and small images for each."""

import torch
from zoo_transformers import BATCH, CLASSES

# Families of timm by kind: a small member of each, and the side of its images.
TIMM = {
    "convolutional": {
        "convmixer_768_32": 32,
        "convnextv2_atto": 64,
        "cs3darknet_focus_s": 64,
        "cspnext_tiny": 64,
        "densenet121": 64,
        "dla46x_c": 64,
        "dpn48b": 64,
        "efficientnet_b0": 64,
        "ese_vovnet19b_slim_dw": 64,
        "fasternet_t0": 64,
        "gernet_s": 64,
        "ghostnetv2_100": 64,
        "hgnetv2_b0": 64,
        "hrnet_w18_small": 64,
        "inception_next_atto": 64,
        "lcnet_050": 64,
        "mambaout_femto": 64,
        "mixnet_s": 64,
        "mobilenetv3_small_050": 64,
        "mobilenetv4_conv_small": 64,
        "mobileone_s0": 64,
        "nf_resnet26": 64,
        "regnetx_002": 64,
        "regnety_002": 64,
        "repghostnet_050": 64,
        "repvgg_a0": 64,
        "res2net50_14w_8s": 64,
        "resnest14d": 64,
        "resnet10t": 64,
        "resnetblur18": 64,
        "resnetv2_18": 64,
        "rexnet_100": 64,
        "selecsls42": 64,
        "skresnet18": 64,
        "starnet_s050": 64,
        "test_byobnet": 64,
        "test_convnext": 64,
        "test_efficientnet_evos": 64,
        "test_efficientnet_gn": 64,
        "test_nfnet": 64,
        "legacy_xception": 64,
    },
    "hybrid": {
        "botnet26t_256": 256,
        "coat_lite_tiny": 224,
        "cpubone_nano": 64,
        "edgenext_xx_small": 64,
        "efficientformerv2_s0": 224,
        "efficientvit_b0": 64,
        "efficientvit_m0": 224,
        "fastvit_t8": 64,
        "gcvit_xxtiny": 224,
        "halonet26t": 256,
        "lambda_resnet26t": 64,
        "levit_128s": 224,
        "mobilevit_xxs": 64,
        "mobilevitv2_050": 64,
        "nextvit_small": 64,
        "poolformer_s12": 64,
        "pvt_v2_b0": 64,
        "repvit_m0_9": 64,
        "shvit_s1": 64,
        "swiftformer_xs": 64,
        "test_coatnet": 160,
        "test_maxvit": 160,
        "tiny_vit_5m_224": 224,
        "visformer_tiny": 224,
    },
    "transformer": {
        "cait_xxs24_224": 224,
        "convit_tiny": 224,
        "crossvit_9_240": 240,
        "davit_tiny": 64,
        "deit_tiny_distilled_patch16_224": 224,
        "eva02_tiny_patch14_224": 224,
        "focalnet_tiny_srf": 64,
        "gmlp_ti16_224": 224,
        "hiera_tiny_224": 224,
        "mvitv2_tiny": 224,
        "pit_ti_224": 224,
        "resmlp_12_224": 224,
        "swin_tiny_patch4_window7_224": 224,
        "swinv2_tiny_window8_256": 256,
        "test_vit": 160,
        "test_vit3": 160,
        "test_vit_relpos": 160,
        "tnt_s_patch16_224": 224,
        "twins_svt_small": 64,
        "volo_d1_224": 224,
        "xcit_nano_12_p16_224": 64,
    },
}

TORCHVISION = {
    "convolutional": {
        "alexnet": 64,
        "googlenet": 64,
        "inception_v3": 299,
        "mnasnet0_5": 64,
        "mobilenet_v2": 64,
        "mobilenet_v3_small": 64,
        "regnet_y_400mf": 64,
        "resnet18": 64,
        "shufflenet_v2_x0_5": 64,
        "squeezenet1_1": 64,
        "vgg11_bn": 64,
    },
    "segmentation": {
        "deeplabv3_mobilenet_v3_large": 64,
        "fcn_resnet50": 64,
        "lraspp_mobilenet_v3_large": 64,
    },
    "detection": {
        "fasterrcnn_mobilenet_v3_large_320_fpn": 64,
        "fcos_resnet50_fpn": 64,
        "keypointrcnn_resnet50_fpn": 64,
        "maskrcnn_resnet50_fpn": 64,
        "retinanet_resnet50_fpn": 64,
        "ssdlite320_mobilenet_v3_large": 64,
    },
    "video": {"r3d_18": 32, "mc3_18": 32, "r2plus1d_18": 32},
    "flow": {"raft_small": 128},
    "transformer": {"maxvit_t": 224, "swin_t": 64, "swin_v2_t": 64},
}


def classes() -> torch.Tensor:
    return torch.randint(CLASSES, (BATCH,))


class Classifier(torch.nn.Module):
    """A model of images with its loss, that of auxiliary heads included."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        found = self.model(images)
        outputs = found if isinstance(found, tuple | list) else [found]
        return sum(torch.nn.functional.cross_entropy(one, labels) for one in outputs)


class Segmenter(torch.nn.Module):
    """A model of torchvision's that gives a class for each pixel, with its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        outputs = self.model(images).values()
        return sum(torch.nn.functional.cross_entropy(one, labels) for one in outputs)


class Detector(torch.nn.Module):
    """A detector of torchvision's: its losses' sum."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, targets):
        for target in targets:
            if "keypoints" in target:  # torchvision takes no wider ones
                target["keypoints"] = target["keypoints"].float()
        return sum(self.model(list(images), targets).values())


class Flow(torch.nn.Module):
    """A model of optical flow: each of its refinements against a given flow."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, first, second, flow):
        return sum((one - flow).abs().mean() for one in self.model(first, second))


def build_timm(name: str, size: int):
    import timm

    model = timm.create_model(name, pretrained=False, num_classes=CLASSES)
    return Classifier(model), {"images": torch.randn(BATCH, 3, size, size), "labels": classes()}


def boxes(kind: str, size: int) -> dict:
    corners = torch.rand(3, 2) * size / 2
    found = {
        "boxes": torch.cat([corners, corners + 4 + torch.rand(3, 2) * size / 3], 1),
        "labels": torch.randint(1, CLASSES, (3,)),
    }
    if kind.startswith("maskrcnn"):
        found["masks"] = torch.randint(2, (3, size, size), dtype=torch.uint8)
    if kind.startswith("keypointrcnn"):
        found["labels"] = torch.ones(3, dtype=torch.int64)
        points = corners[:, None] + torch.rand(3, 17, 2) * 4
        found["keypoints"] = torch.cat([points, torch.ones(3, 17, 1)], 2)
    return found


def build_detector(name: str, size: int):
    import torchvision

    options = {"num_classes": CLASSES}
    if not name.startswith("ssd"):
        options |= {"min_size": size, "max_size": size}
    if "rcnn" in name:
        options["box_batch_size_per_image"] = 64
    if name.startswith("keypoint"):
        head = torchvision.models.detection.keypoint_rcnn.KeypointRCNNHeads(256, (64, 512))
        options |= {"num_classes": 2, "keypoint_head": head}
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, **options)
    images = torch.rand(BATCH, 3, size, size)
    return Detector(model), {"images": images, "targets": [boxes(name, size) for _ in images]}


def narrow(classifier: torch.nn.Sequential):
    """Leaves few of the features of alexnet and vgg, which have a hundred million weights there."""
    for i, layer in enumerate(classifier):
        if isinstance(layer, torch.nn.Linear):
            sizes = [128 if n == 4096 else n for n in (layer.in_features, layer.out_features)]
            classifier[i] = torch.nn.Linear(*sizes)


def build_torchvision(kind: str, name: str, size: int):
    import torchvision

    if kind == "detection":
        return build_detector(name, size)
    if kind == "flow":
        model = torchvision.models.get_model(name, weights=None)
        images = [torch.randn(1, 3, size, size) for _ in range(2)]
        flow = torch.randn(1, 2, size, size)
        return Flow(model), {"first": images[0], "second": images[1], "flow": flow}
    plain = {"weights_backbone": None} if kind == "segmentation" else {}
    model = torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **plain)
    if name in ("alexnet", "vgg11_bn"):
        narrow(model.classifier)
    images = torch.randn(BATCH, 3, size, size)
    if kind == "segmentation":
        return Segmenter(model), {
            "images": images,
            "labels": torch.randint(CLASSES, (BATCH, size, size)),
        }
    if kind == "video":
        images = images[:, :, None].repeat(1, 1, 8, 1, 1)
    return Classifier(model), {"images": images, "labels": classes()}
